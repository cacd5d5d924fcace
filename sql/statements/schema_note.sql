-- Notes a migration that was applied. $1 version, $2 name.
insert into reeve.schema_migrations (version, name) values ($1::text::int, $2)
