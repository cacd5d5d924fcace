-- What is looked through a page at a time, so that locked rows hide nothing behind them.

-- The journal by expiry, from a place on: expired_find.sql.
drop index assignments_expiry;
create index assignments_expiry on assignments (next_expiry, id) where closed_at is null and next_expiry is not null;

-- When next_at was set: what was planned before the database's clock was set back does not wait for the old time to come
-- again. Null, of those from before, counts as the past.
alter table callbacks add column planned_at timestamptz;
alter table callbacks alter column planned_at set default clock_timestamp();
