-- Records that a partition is archived. No row: another manager is archiving. $1 partition, $2 file, $3 number of
-- tasks, $4 the manager's name, $5 the manager.
insert into archives (partition, file, tasks, manager)
select $1, $2, $3::bigint, $4 from locks where name = 'archive' and holder = $5::bigint
returning id
