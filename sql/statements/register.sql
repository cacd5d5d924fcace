-- A new incarnation of a worker. $1 name, $2 host, $3 pid, $4 version, $5 concurrency, $6 queues, $7 types.
with w as (
  insert into workers (name, host, pid, version, concurrency, queues, types)
  values ($1, $2, $3, $4, $5, $6, $7) returning id)
insert into worker_events (worker_id, event, note)
select id, 'registered', concat($1::text, ', concurrency ', $5::int) from w
returning worker_id
