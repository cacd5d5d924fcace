-- Returns the live incarnations, their heartbeat numbers, and the lease that each was promised. No time is read: each
-- manager decides on its own clock whether a number stands still. Pull clients send no heartbeats, and are left out.
-- One row of arrays: with thousands of workers several times a second, rows would be most of what their heartbeats wait
-- for.
select array_agg(id), array_agg(hb_seq), array_agg(lease_ms) from workers where gone_at is null and not lost and not manual
