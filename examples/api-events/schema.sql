-- What the application keeps of API calls: how many of each endpoint by account and hour.
create table api_counts (
  account bigint not null,
  endpoint text not null,
  hour timestamptz not null,
  calls bigint not null,
  primary key (account, endpoint, hour));

-- The chunks that have been counted: a row is made in the transaction that counts them.
create table api_chunks (
  task_id bigint primary key,
  events bigint not null,
  at timestamptz not null default clock_timestamp());
create index api_chunks_at on api_chunks (at);
