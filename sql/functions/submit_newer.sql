-- Submits tasks with versions whose keys exist already; `specs` are rows of tasks as JSON. If a version is newer than
-- the key's, the key's task runs again as its spec describes it: at once if it waits or has ended, after its end if it
-- executes. Returns for each its place, the task's id, whether it runs again, and if it waits now, its route, priority,
-- version and due time.
create or replace function submit_newer(specs jsonb[]) returns table (n bigint, id bigint, restarted boolean, route_id int, priority int,
  version timestamptz, run_at timestamptz)
language plpgsql as $$
declare
  spec jsonb;
  in_queues text[];
  wanted text[];
begin
  -- A key's version only grows: a spec that is not newer now needs no lock.
  select array_agg(k.queue), array_agg(k.key) into in_queues, wanted
  from unnest(specs) s join keys k on k.queue = s ->> 'queue' and k.key = s ->> 'key'
  where k.version is null or k.version < (s ->> 'version')::bigint;
  perform lock_keyed(in_queues, wanted);
  perform lock_batches('{}', in_queues, wanted);
  for n, spec in select u.place, u.s from unnest(specs) with ordinality u(s, place)
    order by u.s ->> 'queue', u.s ->> 'key', u.place
  loop
    return query select n, r.* from submit_newer_one(spec) r;
  end loop;
end $$;
