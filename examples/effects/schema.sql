-- Tables in the application's own database, for unique-row and fenced-write.

create table accounts (
  name text primary key,
  balance bigint not null default 0);

-- Effects that have happened. The transaction of an effect inserts its row.
create table effects (
  id text primary key,
  result text,
  at timestamptz not null default clock_timestamp());

create table documents (
  task_id bigint primary key,
  token bigint not null,                   -- the highest that has written
  content text not null);
