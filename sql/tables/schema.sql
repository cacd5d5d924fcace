-- The functions, views and triggers that the database has: which text of each, and which release of Reeve wrote it.
create table schema_definitions (
  name text primary key,
  hash text not null,                      -- SHA-256 of the text
  release text not null,
  applied timestamptz not null default clock_timestamp());
