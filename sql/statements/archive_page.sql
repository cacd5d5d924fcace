-- The next tasks of a partition, by their ids, as lines for its archive. No row: another manager archives. $1 the partition,
-- $2 after this id, $3 about so many bytes, $4 the manager.
select p.id, p.line from locks l
left join lateral history_page($1, $2::bigint, $3::bigint) p on true
where l.name = 'archive' and l.holder = $4::bigint
