-- Definitions of pipelines. unused_since: since when no live task has a definition that was replaced; unused_xid: whatever was
-- written before has a smaller number.
alter table pipelines
  add column unused_since timestamptz,
  add column unused_xid xid8;
create index pipelines_replaced on pipelines (id) where replaced_at is not null;
create index tasks_pipeline on tasks (pipeline_id) where pipeline_id is not null;

-- How long a manager keeps what is not a queue's to say.
alter table managers add column history_days int;

-- The longest that any manager keeps anything, in days. One that has been silent for a day is not there any more.
create function history_keep(otherwise int) returns int language sql stable as $$
  select greatest(otherwise, (select max(history_days) from managers where not stopped and hb_at > statement_timestamp() - interval '1 day'))
$$;

-- As before, and that any manager does.
create or replace function longest_keep(otherwise int) returns int language sql stable as $$
  select greatest(otherwise, history_keep(otherwise),
    (select max(greatest(keep_completed_days, keep_dead_days, keep_cancelled_days)) from queues))
$$;

-- Callbacks: a try counts when it is known what came of it. takes: how often a manager has taken it for a try.
alter table callbacks add column takes int not null default 0;
update callbacks set takes = attempts where state = 'waiting';
