-- Returns the functions and views that the database has, and whether a newer release than $1 wrote them.
select name, hash, release, string_to_array(release, '.')::int[] > string_to_array($1, '.')::int[] from reeve.schema_definitions
