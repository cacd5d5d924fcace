-- Ingests tasks that were submitted by SQL: the first one after an id, and those that go with it. Returns the id up to
-- which it came (null: the end), how many it ingested, and which tasks the caller must end in the same transaction,
-- with the code and the reason. $1 the id, $2 the maximum number of tasks.
select walked, ingested, refused, code, reason from inbox_ingest($1::bigint, $2::int)
