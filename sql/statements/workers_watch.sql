-- The incarnations that live, how far their heartbeats have come, and the lease that each was told. No time is read:
-- whether one stands still is judged by each manager on its own clock. Nobody sends heartbeats for those who pull by hand.
-- One row of arrays: of thousands of workers several times a second, rows would be most of what their heartbeats wait for.
select array_agg(id), array_agg(hb_seq), array_agg(lease_ms) from workers where gone_at is null and not lost and not by_hand
