-- Stores the counts of workers by queue and batch, as their heartbeats report them. One element per count: $1 incarnations,
-- $2 queues, $3 batches or 0, $4 attempts that completed, $5 that failed.
insert into worker_counts as c (worker_id, queue, batch_id, completed, failed)
select distinct on (worker_id, queue, batch_id) u.* from unnest($1::bigint[], $2::text[], $3::bigint[], $4::bigint[], $5::bigint[]) u(worker_id, queue, batch_id, completed, failed)
order by worker_id, queue, batch_id, completed desc, failed desc
on conflict (worker_id, queue, batch_id) do update set completed = excluded.completed, failed = excluded.failed
where c.completed < excluded.completed or c.failed < excluded.failed
