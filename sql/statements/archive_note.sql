-- Records that a partition is archived, unless it has been dropped since, or this is a repetition. No row: another manager is
-- archiving. $1 partition, $2 file, $3 number of tasks, $4 the manager's name, $5 the manager.
with noted as (
  insert into archives (partition, file, tasks, manager)
  select $1, $2, $3::bigint, $4 from locks
  where name = 'archive' and holder = $5::bigint and to_regclass('reeve.' || $1) is not null
    and not exists (select from archives where partition = $1 and file = $2 and tasks = $3 and dropped is null))
select from locks where name = 'archive' and holder = $5::bigint
