-- Reviews of code, as in SQLite. Rows of messages, verdicts and review_events are only ever added.
CREATE TABLE reviews (
    id               text PRIMARY KEY,
    seq              bigint NOT NULL UNIQUE,
    status           text NOT NULL DEFAULT 'created'
                     CHECK (status IN ('created','claimed','in_discussion','approved','rejected','closed')),
    version          bigint NOT NULL DEFAULT 1,
    intent           text NOT NULL,
    description      text,
    agent_type       text NOT NULL,
    phase            text NOT NULL,
    plan             text,
    task             text,
    project          text,
    category         text NOT NULL CHECK (category IN ('plan_review','code_change','verification','handoff')),
    priority         bigint NOT NULL CHECK (priority IN (0, 1, 2)),
    proposed_by      text NOT NULL,
    claimed_by       text,
    claim_generation bigint NOT NULL DEFAULT 0,
    lease_boot_id    text,
    lease_boot_ms    bigint,
    lease_wall_ms    bigint,
    parent_id        text REFERENCES reviews (id),
    affected_files   text NOT NULL,
    message_count    bigint NOT NULL DEFAULT 0,
    patch_count      bigint NOT NULL DEFAULT 0,
    created_at       text NOT NULL,
    updated_at       text NOT NULL
);
CREATE INDEX idx_reviews_status ON reviews (status, priority, seq);
CREATE INDEX idx_reviews_parent ON reviews (parent_id) WHERE parent_id IS NOT NULL;
CREATE INDEX idx_reviews_lease ON reviews (lease_boot_ms) WHERE lease_boot_id IS NOT NULL;

CREATE TABLE messages (
    id         text PRIMARY KEY,
    review_id  text NOT NULL REFERENCES reviews (id) ON DELETE CASCADE,
    seq        bigint NOT NULL,
    role       text NOT NULL CHECK (role IN ('proposer','reviewer')),
    body       text NOT NULL,
    posted_by  text NOT NULL,
    created_at text NOT NULL
);
CREATE INDEX idx_messages_review ON messages (review_id, seq);

CREATE TABLE verdicts (
    id         text PRIMARY KEY,
    review_id  text NOT NULL REFERENCES reviews (id) ON DELETE CASCADE,
    seq        bigint NOT NULL,
    decision   text NOT NULL CHECK (decision IN ('approved','rejected')),
    reason     text,
    given_by   text NOT NULL,
    created_at text NOT NULL
);
CREATE INDEX idx_verdicts_review ON verdicts (review_id, seq);

CREATE TABLE patches (
    id             text PRIMARY KEY,
    review_id      text NOT NULL REFERENCES reviews (id) ON DELETE CASCADE,
    seq            bigint NOT NULL,
    role           text NOT NULL CHECK (role IN ('proposer','reviewer')),
    description    text,
    affected_files text NOT NULL,
    accepted       boolean,
    submitted_by   text NOT NULL,
    created_at     text NOT NULL,
    diff           text NOT NULL
);
CREATE INDEX idx_patches_review ON patches (review_id, seq);

-- One row per change, in the transaction of the change, chained by hash.
CREATE TABLE review_events (
    seq        bigint PRIMARY KEY,
    review_id  text NOT NULL,
    event      text NOT NULL,
    actor      text NOT NULL,
    old_status text,
    new_status text,
    about_id   text,
    content    bytea,
    detail     text,
    created_at text NOT NULL,
    queue      boolean NOT NULL,
    hash       bytea NOT NULL
);
CREATE INDEX idx_review_events_review ON review_events (review_id, seq);
CREATE INDEX idx_review_events_queue ON review_events (seq) WHERE queue;

-- The end of the history, locked by every write. Shows that a tail of events was cut off.
CREATE TABLE review_head (
    one  boolean PRIMARY KEY DEFAULT true CHECK (one),
    seq  bigint NOT NULL,
    hash bytea NOT NULL
);
INSERT INTO review_head (seq, hash) VALUES (0, decode(repeat('00', 32), 'hex'));

-- Idempotency keys of clients, with what the first use wrote.
CREATE TABLE review_keys (
    key       text PRIMARY KEY,
    digest    bytea NOT NULL,
    review_id text NOT NULL,
    about_id  text
);

-- Reviews that an operator purged, with the event that records it; as in SQLite.
CREATE TABLE purged_reviews (
    id  text PRIMARY KEY,
    seq bigint NOT NULL
);
