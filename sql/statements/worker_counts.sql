-- Stores the counts of workers by queue and batch, as their heartbeats report them. One element per count: $1 incarnations,
-- $2 queues, $3 batches or 0, $4 attempts that succeeded, $5 that failed.
insert into worker_counts as c (worker_id, queue, batch_id, succeeded, failed)
select distinct on (worker_id, queue, batch_id) u.* from unnest($1::bigint[], $2::text[], $3::bigint[], $4::bigint[], $5::bigint[]) u(worker_id, queue, batch_id, succeeded, failed)
order by worker_id, queue, batch_id, succeeded desc, failed desc
on conflict (worker_id, queue, batch_id) do update set succeeded = excluded.succeeded, failed = excluded.failed
where c.succeeded < excluded.succeeded or c.failed < excluded.failed
