-- Notes that a partition is archived. No row: another manager archives. $1 which, $2 in what file, $3 how many tasks, $4 the
-- manager's name, $5 the manager.
insert into archives (partition, file, tasks, manager)
select $1, $2, $3::bigint, $4 from locks where name = 'archive' and holder = $5::bigint
returning id
