-- A route is a pair of queue and type: everything that decides which worker may run a task, as one small number. The ready index
-- of tasks starts with it.
--
-- A route retires when it has no task, live or in the history, and came into use more than a day ago: managers forget it. Its row
-- stays, so that a number means its names for ever. No lock and no count proves that nobody has the number any more: a frozen
-- manager or an open transaction of an application may insert a task of it later, and that task may even end before its counts
-- are added up. So retiring decides nothing that such a task would come too late for: its counts, which are committed with it,
-- bring the route back whenever they are added up.
create table routes (
  id int generated always as identity primary key,
  queue text not null,
  type text not null,
  labels text[] not null default '{}',
  retired timestamptz,                     -- null: managers know it
  used timestamptz not null default statement_timestamp(), -- when it was created, or brought back
  unique (queue, type, labels));
create index routes_in_use on routes (id) where retired is null and labels = '{}';
