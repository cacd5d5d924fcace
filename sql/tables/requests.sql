-- One row for each changing call, so that a repeated call takes effect once.
create table requests (
  id uuid primary key,                     -- version 7: in the order of time
  kind text not null default 'submit',     -- submit, cancel, retry, update, …
  task_ids bigint[] not null,              -- the ids in the answer
  existing boolean[] not null default '{}',-- of a submit with keys: which tasks existed already
  at timestamptz not null default clock_timestamp(),
  restarted boolean[] not null default '{}'); -- of a submit with versions: which tasks run again
-- Compressing them takes a twentieth of a submit's time.
alter table requests alter column task_ids set storage external;

-- The request ids that idempotency keys of calls by HTTP stand for. Hashes are the first half of SHA-256.
create table call_keys (
  key uuid primary key,                    -- the hash of caller, method and key
  request_id uuid not null,                -- of version 7: when the first call came
  request uuid not null);                  -- the hash of its request
create index call_keys_request_id on call_keys (request_id);

-- Idempotency keys.
create table keys (
  queue text not null,
  key text not null,
  task_id bigint not null,
  keep_ms bigint,                          -- the lifetime from the submit, if the caller or the queue sets one
  expires_at timestamptz,                  -- null: the key is kept as long as its task
  version bigint,                          -- of the task; null: submitted without one. A key with a version is kept for a year
                                           -- after its last submit
  primary key (queue, key));
create index keys_expiry on keys (expires_at) where expires_at is not null;
