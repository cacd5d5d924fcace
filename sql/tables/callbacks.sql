-- HTTP callbacks to deliver, each once.
create table callbacks (
  id bigint generated always as identity primary key, -- lets a receiver recognize a repeated delivery
  batch_id bigint not null,
  task_id bigint,                          -- the task it is about; null: the batch
  event text not null check (event in ('batch_begin', 'batch_end', 'task_end', 'attempt_end')),
  url text not null,
  -- The URL's host and port. Only a few callbacks of one site are taken at a time, so that a site that hangs does not
  -- delay the others.
  site text not null generated always as (coalesce(lower(substring(url from '^[^:/]+://([^/?#]*)')), '')) stored,
  secret text,
  payload text,                            -- null: the batch's report, created when it is sent
  state text not null default 'waiting' check (state in ('waiting', 'delivered', 'given_up')),
  attempts int not null default 0,         -- calls with a known outcome
  next_at timestamptz not null default clock_timestamp(), -- when it is due. During a call: when other managers may
                                           -- assume that the call is lost
  last_status int,
  last_error text,
  created timestamptz not null default clock_timestamp(),
  ended_at timestamptz,
  next_set_at timestamptz default clock_timestamp(), -- when next_at was set. If the database's clock was set back
                                           -- since, a callback does not wait for the old time. Null counts as the past
  takes int not null default 0             -- how often a manager took it to send it
) with (fillfactor = 50);
create index callbacks_due on callbacks (site, next_at) where state = 'waiting';
create index callbacks_batch on callbacks (batch_id, id);
create index callbacks_ended on callbacks (ended_at) where ended_at is not null;
-- Callbacks that were not delivered, newest first: of a batch, and of all.
create index callbacks_open on callbacks (batch_id, state, id) where state <> 'delivered';
create index callbacks_undelivered on callbacks (state, id) where state <> 'delivered';
