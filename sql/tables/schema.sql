-- The functions, views and triggers of the database: the hash of each text, and the release of Reeve that wrote it.
create table schema_definitions (
  name text primary key,
  hash text not null,                      -- SHA-256 of the text
  release text not null,
  applied timestamptz not null default clock_timestamp());
