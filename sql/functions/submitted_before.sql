-- Returns an id above those of all tasks that were submitted before a time: submitted_after goes back from the ids of that
-- time by a second and less than 200 ids.
create or replace function submitted_before(until timestamptz) returns bigint language sql stable as $$
  select submitted_after(until + interval '2 s') + 200
$$;
