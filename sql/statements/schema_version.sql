-- Returns the newest migration that the database has. Fails if the table or its schema does not exist.
select max(version)::int from reeve.schema_migrations
