-- Returns the next tasks of a partition, by id, as lines for its archive. No row: another manager is archiving.
-- $1 partition, $2 only ids after this one, $3 approximate number of bytes, $4 the manager.
select p.id, p.line from locks l
left join lateral history_page($1, $2::bigint, $3::bigint) p on true
where l.name = 'archive' and l.holder = $4::bigint
