-- The next tasks of a partition, by their ids, as lines for its archive. No row: the lock is another manager's. $1 the partition,
-- $2 after this id, $3 about so many bytes.
select p.id, p.line from (select pg_try_advisory_lock(hashtext('reeve.archive')) as ours) l
left join lateral history_page($1, $2::bigint, $3::bigint) p on true where l.ours
