-- What is looked through a page at a time, so that locked rows hide nothing behind them.

-- The journal by expiry, from a place on: expired_find.sql.
drop index assignments_expiry;
create index assignments_expiry on assignments (next_expiry, id) where closed_at is null and next_expiry is not null;
