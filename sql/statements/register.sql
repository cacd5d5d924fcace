-- Adds new incarnations of workers, unless another live one has the name: then the answer has no id, but the host and
-- pid of that one, or 0 as the pid alone if it is of another identity. The same process (host and pid) may register
-- twice: it did not get the first answer. The former incarnation that a worker names is over by that report: this is
-- the first of the two commits by which a worker is lost; later statements give its tasks to others. The names of pull
-- clients may repeat, but not within one call of this statement. Only an admin can name the former incarnation of
-- another identity, or take a name that it has.
--   one element per worker: $1 names, $2 hosts, $3 pids, $4 versions, $5 concurrencies, $6 how many of $10 are its
--   queues, $7 how many of $11 are its types, $8 the former incarnations or 0, $9 whether it is a pull client;
--   $10 queues, $11 types, one worker's after the other's; $12 the lease in ms; $13 the identities, null for an admin;
--   $14 their actors
with wanted as materialized (
  select u.*, o.host as other_host, o.pid as other_pid, u.identity is null or o.identity = u.identity as visible
  from (
    select *, sum(queues) over (order by place)::int as queues_to, sum(types) over (order by place)::int as types_to
    from unnest($1::text[], $2::text[], $3::int[], $4::text[], $5::int[], $6::int[], $7::int[], $8::bigint[], $9::boolean[], $13::bigint[], $14::text[])
      with ordinality a(name, host, pid, version, concurrency, queues, types, previous, manual, identity, actor, place)) u
  left join lateral (
    select host, pid, identity from workers
    where name = u.name and gone_at is null and not manual and not u.manual and not lost
      and (id <> u.previous and (host, pid) is distinct from (u.host, u.pid) or u.identity <> coalesce(identity, 0)) limit 1) o on true),
 free as materialized (select * from wanted where other_host is null),
 before as (
  update workers w set lost = true, gone_at = clock_timestamp()
  from free f
  where w.id = any(array[f.previous]) and w.name = f.name and not w.lost and (f.identity is null or w.identity = f.identity)
  returning w.id, f.actor),
 made as (
  insert into workers (name, host, pid, version, concurrency, queues, types, lease_ms, manual, identity, actor)
  select name, host, pid, version, concurrency, ($10::text[])[queues_to - queues + 1:queues_to],
    ($11::text[])[types_to - types + 1:types_to], $12::bigint, manual, identity, actor
  from free order by place
  returning id, name, concurrency, manual, actor),
 events as (
  insert into worker_events (worker_id, event, actor, note)
  select id, 'returned', actor, '' from before
  union all
  select id, 'registered', actor, case when manual then 'pull client' else concat(name, ', concurrency ', concurrency) end from made)
select x.place::int, m.id, case when x.visible then x.other_host end, case when x.visible then x.other_pid else 0 end, (select key from credential_key where id = 1) from wanted x left join made m on m.name = x.name order by x.place
