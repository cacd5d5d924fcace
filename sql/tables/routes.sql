-- A route is a pair of queue and type: everything that decides which workers may run a task, as one small number. The
-- index tasks_ready starts with it.
--
-- A route retires if it has no task, live or in the history, and was created or brought back more than a day ago.
-- Managers then forget it. Its row stays, so that a number always means the same names. No lock and no count can prove
-- that a number is no longer in use: a frozen manager, or an application's open transaction, may insert a task of the
-- route later, and that task may even end before its counts are added up. Retiring does no harm to such a task: its
-- counts, which are committed with it, bring the route back whenever they are added up.
create table routes (
  id int generated always as identity primary key,
  queue text not null,
  type text not null,
  retired timestamptz,                     -- null: managers know it
  used timestamptz not null default statement_timestamp(), -- when it was created or brought back
  unique (queue, type));
create index routes_in_use on routes (id) where retired is null;
