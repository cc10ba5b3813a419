-- Reviews that an operator removed, and the number of the event that says so. Their events stay: what they say is history, and
-- the texts that they added are known by digest only.
CREATE TABLE purged_reviews (
    id  TEXT PRIMARY KEY,
    seq INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
