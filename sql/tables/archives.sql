-- Archive files. Once a file holds the tasks of a partition of the history, the partition may be dropped.
create table archives (
  id bigint generated always as identity primary key,
  partition text not null,
  file text not null,
  tasks bigint not null,
  manager text not null,
  at timestamptz not null default clock_timestamp(),
  dropped timestamptz);                    -- when the partition was dropped
create index archives_partition on archives (partition) where dropped is null;
