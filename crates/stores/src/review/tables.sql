-- Reviews of code. Rows of messages, verdicts and review_events are only ever added.
--
-- Each write costs by the pages it touches. Messages, verdicts and patches have the number of their event as row id, so
-- only the way from a review to them needs an index; a UUID is searched among the few rows of its review.
CREATE TABLE reviews (
    id               TEXT PRIMARY KEY,
    seq              INTEGER NOT NULL,
    status           TEXT NOT NULL DEFAULT 'created'
                     CHECK (status IN ('created','claimed','in_discussion','approved','rejected','closed')),
    version          INTEGER NOT NULL DEFAULT 1,
    intent           TEXT NOT NULL,
    description      TEXT,
    agent_type       TEXT NOT NULL,
    phase            TEXT NOT NULL,
    plan             TEXT,
    task             TEXT,
    project          TEXT,
    category         TEXT NOT NULL CHECK (category IN ('plan_review','code_change','verification','handoff')),
    priority         INTEGER NOT NULL CHECK (priority IN (0, 1, 2)),
    proposed_by      TEXT NOT NULL,
    claimed_by       TEXT,
    claim_generation INTEGER NOT NULL DEFAULT 0,
    lease_boot_id    TEXT,
    lease_boot_ms    INTEGER,
    lease_wall_ms    INTEGER,
    parent_id        TEXT REFERENCES reviews (id),
    affected_files   TEXT NOT NULL,
    message_count    INTEGER NOT NULL DEFAULT 0,
    patch_count      INTEGER NOT NULL DEFAULT 0,
    created_at       TEXT NOT NULL,
    updated_at       TEXT NOT NULL,
    -- The review's last event: shows that a tail of events was cut off, and heads the list of `prev_seq`.
    last_seq         INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX idx_reviews_status ON reviews (status, priority, seq);
CREATE INDEX idx_reviews_parent ON reviews (parent_id) WHERE parent_id IS NOT NULL;
CREATE INDEX idx_reviews_lease ON reviews (status) WHERE lease_boot_id IS NOT NULL;

CREATE TABLE messages (
    id         TEXT NOT NULL,
    review_id  TEXT NOT NULL REFERENCES reviews (id) ON DELETE CASCADE,
    seq        INTEGER PRIMARY KEY,
    role       TEXT NOT NULL CHECK (role IN ('proposer','reviewer')),
    body       TEXT NOT NULL,
    posted_by  TEXT NOT NULL,
    created_at TEXT NOT NULL
) STRICT;
CREATE INDEX idx_messages_review ON messages (review_id);

CREATE TABLE verdicts (
    id         TEXT NOT NULL,
    review_id  TEXT NOT NULL REFERENCES reviews (id) ON DELETE CASCADE,
    seq        INTEGER PRIMARY KEY,
    decision   TEXT NOT NULL CHECK (decision IN ('approved','rejected')),
    reason     TEXT,
    given_by   TEXT NOT NULL,
    created_at TEXT NOT NULL
) STRICT;
CREATE INDEX idx_verdicts_review ON verdicts (review_id);

CREATE TABLE patches (
    id             TEXT NOT NULL,
    review_id      TEXT NOT NULL REFERENCES reviews (id) ON DELETE CASCADE,
    seq            INTEGER PRIMARY KEY,
    role           TEXT NOT NULL CHECK (role IN ('proposer','reviewer')),
    description    TEXT,
    affected_files TEXT NOT NULL,
    accepted       INTEGER CHECK (accepted IN (0, 1)),
    submitted_by   TEXT NOT NULL,
    created_at     TEXT NOT NULL,
    diff           TEXT NOT NULL
) STRICT;
CREATE INDEX idx_patches_review ON patches (review_id);

-- One row per change, in the transaction of the change, chained by hash.
CREATE TABLE review_events (
    seq        INTEGER PRIMARY KEY,
    review_id  TEXT NOT NULL,
    event      TEXT NOT NULL,
    actor      TEXT NOT NULL,
    old_status TEXT,
    new_status TEXT,
    about_id   TEXT,
    content    BLOB,
    detail     TEXT,
    created_at TEXT NOT NULL,
    -- The last event that changed the queue, this one included.
    queue      INTEGER NOT NULL,
    hash       BLOB NOT NULL,
    -- The event before it of the same review.
    prev_seq   INTEGER
) STRICT;

-- Idempotency keys of clients, with the event that the first use wrote.
CREATE TABLE review_keys (
    key       TEXT PRIMARY KEY,
    digest    BLOB NOT NULL,
    review_id TEXT NOT NULL,
    seq       INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Reviews that an operator purged, with the event that records it. Their events stay; purged texts are known by digest.
CREATE TABLE purged_reviews (
    id  TEXT PRIMARY KEY,
    seq INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
