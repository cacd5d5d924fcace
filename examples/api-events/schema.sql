-- The application's counts of API calls, by account, endpoint and hour.
create table api_counts (
  account bigint not null,
  endpoint text not null,
  hour timestamptz not null,
  calls bigint not null,
  primary key (account, endpoint, hour));

-- Counted chunks. The transaction that counts a chunk inserts its row.
create table api_chunks (
  task_id bigint primary key,
  events bigint not null,
  at timestamptz not null default clock_timestamp());
create index api_chunks_at on api_chunks (at);
