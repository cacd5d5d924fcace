-- Before a partition of the history is dropped: deletes what other tables have of its tasks, some of them at a time.
-- $1 the partition, $2 only ids after this one. Returns the last id; null when there is no more.
select history_forget($1, $2::bigint, 5000)
