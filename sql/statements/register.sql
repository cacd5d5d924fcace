-- A new incarnation of a worker, unless another one that lives has the name. The same process (host and pid) may register
-- twice: it did not get the first answer. The incarnation that it says it had before is over, by its own word: that is
-- the first commit of the two that losing a worker takes; its tasks are given to others by later statements. The names of
-- those who pull by hand may repeat.
--   $1 name, $2 host, $3 pid, $4 version, $5 concurrency, $6 queues, $7 types, $8 the incarnation before or 0,
--   $9 its lease in ms, $10 whether it pulls by hand
with other as materialized (
  select name, host, pid from workers
  where name = $1 and gone_at is null and not lost and id <> $8::bigint and (host, pid) is distinct from ($2, $3::int)
    and not by_hand and not $10::boolean limit 1),
 before as (
  update workers set lost = true, gone_at = clock_timestamp()
  where id = $8::bigint and name = $1 and not lost and not exists (select from other)
  returning id),
 w as (
  insert into workers (name, host, pid, version, concurrency, queues, types, lease_ms, by_hand)
  select $1, $2, $3::int, $4, $5::int, $6, $7, $9::bigint, $10 where not exists (select from other)
  returning id),
 told as (
  insert into worker_events (worker_id, event, note)
  select id, 'returned', '' from before
  union all
  select id, 'registered', case when $10 then 'by hand' else concat($1::text, ', concurrency ', $5::int) end from w)
select (select id from w) as id, (select host from other) as host, (select pid from other) as pid
