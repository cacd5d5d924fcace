-- What the application has: sessions that are to go a month after they were last used.
create table sessions (
  id bigint generated always as identity primary key,
  last_used timestamptz not null default clock_timestamp());
create index sessions_last_used on sessions (last_used);
