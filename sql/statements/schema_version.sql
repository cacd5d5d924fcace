-- The newest migration that the database has; null without the table.
select max(version)::int from reeve.schema_migrations
