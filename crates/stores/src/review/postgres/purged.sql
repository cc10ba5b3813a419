-- Reviews that an operator removed, and the number of the event that says so; as in SQLite.
CREATE TABLE purged_reviews (
    id  text PRIMARY KEY,
    seq bigint NOT NULL
);
