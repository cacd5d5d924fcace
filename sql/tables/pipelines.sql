-- Pipelines: tasks that pass through stages, the result of one being the input of the next. A definition never changes: defining
-- a pipeline again inserts a new row and replaces the old one, and tasks go on as they began.
create table pipelines (
  id bigint generated always as identity primary key,
  name text not null,
  -- In order, each {"name", "type", "next" (a stage's name; not there: the task ends), "max_attempts", "timeout_ms",
  -- "retry_base_ms", "retry_max_ms", "retry_policy" or not there, "priority" or not there: it stays}. No stage is called "end":
  -- with that name a handler ends the pipeline.
  stages jsonb not null,
  max_steps int not null default 100,      -- a task goes through so many stages at most, whatever its handlers choose
  source text not null default '',
  created timestamptz not null default clock_timestamp(),
  replaced_at timestamptz,
  unused_since timestamptz,                -- of a replaced one: since when no live task has it
  unused_xid xid8);                        -- whatever was written before that has a smaller number
create unique index pipelines_current on pipelines (name) where replaced_at is null;
create index pipelines_replaced on pipelines (id) where replaced_at is not null;
