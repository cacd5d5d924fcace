-- No events, but where those begin that are the newest of all, as the page that audit_page begins with. $1 since; $2 how many they
-- are at least, if there are so many.
select null::timestamptz, null::bigint, null::timestamptz, null::text, null::text, null::bigint, null::smallint, null::text,
  null::text, audit_newest($1::timestamptz, $2::int)
