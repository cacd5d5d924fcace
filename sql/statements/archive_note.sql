-- Notes that a partition is archived. $1 which, $2 in what file, $3 how many tasks, $4 the manager.
insert into archives (partition, file, tasks, manager) values ($1, $2, $3::bigint, $4)
