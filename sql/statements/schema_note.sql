-- Records an applied migration. $1 version, $2 name.
insert into reeve.schema_migrations (version, name) values ($1::text::int, $2)
