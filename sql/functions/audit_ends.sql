-- Returns where the pages of the audit before `until` end: a second later, since a submit whose id is among those of later
-- ones is on their page. At the latest they end now, so that they do end while events arrive.
create or replace function audit_ends(until timestamptz) returns timestamptz language sql stable as $$
  select least(until + interval '1 s', statement_timestamp())
$$;
