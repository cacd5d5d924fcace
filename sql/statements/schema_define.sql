-- Records the current text of a function or view. $1 its name, $2 the text's hash, $3 this program's release.
insert into reeve.schema_definitions (name, hash, release) values ($1, $2, $3)
on conflict (name) do update set hash = excluded.hash, release = excluded.release, applied = clock_timestamp()
