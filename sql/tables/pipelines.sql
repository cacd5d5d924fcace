-- Pipelines: tasks that run through stages; the result of one stage is the input of the next. A definition never
-- changes. Defining a pipeline again inserts a new row and replaces the old one; existing tasks keep their definition.
create table pipelines (
  id bigint generated always as identity primary key,
  name text not null,
  -- In order, each {"name", "type", "next" (the name of a stage; absent: the task ends), "max_attempts", "timeout_ms",
  -- "retry_base_ms", "retry_max_ms", "retry_policy" (may be absent), "priority" (absent: the priority stays),
  -- "queue" (absent: the queue stays)}. No stage has the name "end": with it a handler ends the pipeline.
  stages jsonb not null,
  max_steps int not null default DEFAULT_STEPS, -- how many stages a task can enter, whatever its handlers choose
  source text not null default '',
  created timestamptz not null default clock_timestamp(),
  replaced_at timestamptz,
  unused_since timestamptz,                -- of a replaced definition: since when no live task has it
  unused_xid xid8);                        -- transactions that wrote before that have smaller numbers
create unique index pipelines_current on pipelines (name) where replaced_at is null;
create index pipelines_replaced on pipelines (id) where replaced_at is not null;
