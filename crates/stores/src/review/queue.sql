-- A page less for whatever changes the queue: each event says which one changed it last, itself included, so that nobody needs an
-- index to find that.
DROP INDEX idx_review_events_queue;
UPDATE review_events SET queue = turns.at
    FROM (SELECT seq, max(CASE queue WHEN 1 THEN seq ELSE 0 END) OVER (ORDER BY seq) AS at FROM review_events) AS turns
    WHERE turns.seq = review_events.seq;
