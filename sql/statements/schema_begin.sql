-- Makes the schema and the record of migrations, under a lock that other starting managers wait for.
create schema if not exists reeve;
set search_path = reeve;
create table if not exists schema_migrations (
  version int primary key,
  name text not null,
  applied timestamptz not null default clock_timestamp())
