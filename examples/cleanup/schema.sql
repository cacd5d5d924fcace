-- The application's sessions, to be deleted a month after their last use.
create table sessions (
  id bigint generated always as identity primary key,
  last_used timestamptz not null default clock_timestamp());
create index sessions_last_used on sessions (last_used);
