-- Fewer pages for each write. What is added is kept under the number of its event, which is the row's own place, so
-- that only the way from a review to it needs an index; a UUID is looked for among the few of its review. Events are a
-- list of their own for each review: it begins at `reviews.last_seq` and goes back by `prev_seq`.
ALTER TABLE review_events ADD COLUMN prev_seq INTEGER;
UPDATE review_events SET prev_seq = (SELECT max(e.seq) FROM review_events e
    WHERE e.review_id = review_events.review_id AND e.seq < review_events.seq);
DROP INDEX idx_review_events_review;

-- Without an index over seq alone, which nothing looks for.
CREATE TABLE reviews_2 (
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
    last_seq         INTEGER NOT NULL DEFAULT 0
) STRICT;
INSERT INTO reviews_2 (id, seq, status, version, intent, description, agent_type, phase, plan, task, project, category,
        priority, proposed_by, claimed_by, claim_generation, lease_boot_id, lease_boot_ms, lease_wall_ms, parent_id,
        affected_files, message_count, patch_count, created_at, updated_at, last_seq)
    SELECT id, seq, status, version, intent, description, agent_type, phase, plan, task, project, category,
        priority, proposed_by, claimed_by, claim_generation, lease_boot_id, lease_boot_ms, lease_wall_ms, parent_id,
        affected_files, message_count, patch_count, created_at, updated_at, last_seq
    FROM reviews ORDER BY seq;
DROP TABLE reviews;
ALTER TABLE reviews_2 RENAME TO reviews;
CREATE INDEX idx_reviews_status ON reviews (status, priority, seq);
CREATE INDEX idx_reviews_parent ON reviews (parent_id) WHERE parent_id IS NOT NULL;
CREATE INDEX idx_reviews_lease ON reviews (status) WHERE lease_boot_id IS NOT NULL;

CREATE TABLE review_keys_2 (
    key       TEXT PRIMARY KEY,
    digest    BLOB NOT NULL,
    review_id TEXT NOT NULL,
    seq       INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO review_keys_2 (key, digest, review_id, seq)
    SELECT key, digest, review_id, coalesce(
        (SELECT m.seq FROM messages m WHERE m.id = about_id),
        (SELECT v.seq FROM verdicts v WHERE v.id = about_id),
        (SELECT p.seq FROM patches p WHERE p.id = about_id), 0)
    FROM review_keys;
DROP TABLE review_keys;
ALTER TABLE review_keys_2 RENAME TO review_keys;

CREATE TABLE messages_2 (
    id         TEXT NOT NULL,
    review_id  TEXT NOT NULL REFERENCES reviews (id) ON DELETE CASCADE,
    seq        INTEGER PRIMARY KEY,
    role       TEXT NOT NULL CHECK (role IN ('proposer','reviewer')),
    body       TEXT NOT NULL,
    posted_by  TEXT NOT NULL,
    created_at TEXT NOT NULL
) STRICT;
INSERT INTO messages_2 (id, review_id, seq, role, body, posted_by, created_at)
    SELECT id, review_id, seq, role, body, posted_by, created_at FROM messages ORDER BY seq;
DROP TABLE messages;
ALTER TABLE messages_2 RENAME TO messages;
CREATE INDEX idx_messages_review ON messages (review_id);

CREATE TABLE verdicts_2 (
    id         TEXT NOT NULL,
    review_id  TEXT NOT NULL REFERENCES reviews (id) ON DELETE CASCADE,
    seq        INTEGER PRIMARY KEY,
    decision   TEXT NOT NULL CHECK (decision IN ('approved','rejected')),
    reason     TEXT,
    given_by   TEXT NOT NULL,
    created_at TEXT NOT NULL
) STRICT;
INSERT INTO verdicts_2 (id, review_id, seq, decision, reason, given_by, created_at)
    SELECT id, review_id, seq, decision, reason, given_by, created_at FROM verdicts ORDER BY seq;
DROP TABLE verdicts;
ALTER TABLE verdicts_2 RENAME TO verdicts;
CREATE INDEX idx_verdicts_review ON verdicts (review_id);

CREATE TABLE patches_2 (
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
INSERT INTO patches_2 (id, review_id, seq, role, description, affected_files, accepted, submitted_by, created_at, diff)
    SELECT id, review_id, seq, role, description, affected_files, accepted, submitted_by, created_at, diff
    FROM patches ORDER BY seq;
DROP TABLE patches;
ALTER TABLE patches_2 RENAME TO patches;
CREATE INDEX idx_patches_review ON patches (review_id);
