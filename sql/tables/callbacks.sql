-- What is to be reported to somebody by HTTP, once each.
create table callbacks (
  id bigint generated always as identity primary key, -- a receiver knows a repeated one by it
  batch_id bigint not null,
  task_id bigint,                          -- of which task; null: of the batch
  event text not null check (event in ('batch_begin', 'batch_end', 'task_end')),
  url text not null,
  -- The URL's host and port: those of one site are taken a few at a time, so that one that hangs does not hold up the others.
  site text not null generated always as (coalesce(lower(substring(url from '^[^:/]+://([^/?#]*)')), '')) stored,
  secret text,
  payload text,                            -- null: the batch's report, made when it is sent
  state text not null default 'waiting' check (state in ('waiting', 'delivered', 'given_up')),
  attempts int not null default 0,         -- calls whose outcome is known
  next_at timestamptz not null default clock_timestamp(), -- when it is due; while a call is under way, when others may take it
                                           -- to be lost
  last_status int,
  last_error text,
  created timestamptz not null default clock_timestamp(),
  ended_at timestamptz,
  planned_at timestamptz default clock_timestamp(), -- when next_at was set: after the database's clock was set back it does
                                           -- not wait for the old time to come again. Null counts as the past
  takes int not null default 0             -- how often a manager took it to call it
) with (fillfactor = 50);
create index callbacks_due on callbacks (site, next_at) where state = 'waiting';
create index callbacks_batch on callbacks (batch_id, id);
create index callbacks_ended on callbacks (ended_at) where ended_at is not null;
-- Those that were not delivered, newest first: of a batch, and of all.
create index callbacks_open on callbacks (batch_id, state, id) where state <> 'delivered';
create index callbacks_undelivered on callbacks (state, id) where state <> 'delivered';
