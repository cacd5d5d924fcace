-- The incarnations that live, and how far their heartbeats have come. No time is read: whether one stands still is judged
-- by each manager on its own clock.
select id, hb_seq from workers where gone_at is null and not lost
