-- The tables of an application's own database that unique-row and fenced-write write to.

create table accounts (
  name text primary key,
  balance bigint not null default 0);

-- What has been done: a row is made in the transaction of the effect that it stands for.
create table effects (
  id text primary key,
  result text,
  at timestamptz not null default clock_timestamp());

create table documents (
  task_id bigint primary key,
  token bigint not null,                   -- the highest that has written
  content text not null);
