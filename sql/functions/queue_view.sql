-- Returns the state of a queue for display (see docs/queues.md), and how many of its live tasks wait and run, from the
-- counts.
create or replace function queue_view(wanted text) returns table (state text, since timestamptz, waiting bigint, running bigint,
  batch_id bigint) language sql stable as $$
  with q as (select * from queues where name = wanted),
   ways as materialized (select id from routes where queue = wanted),
   live as (
    select coalesce(sum(t.executing), 0)::bigint as running, coalesce(sum(t.queued + t.delayed + t.failed), 0)::bigint as waiting,
      coalesce(sum(t.failed), 0) > 0 as begun
    from live_totals(wanted) t),
   open as (select id, queue from batches where phase <> 'ended' offset 0),
   batch as (
    select * from batches where id = coalesce(
      (select o.id from open o join q on q.batch_id = o.id), (select max(id) from open where queue = wanted),
      (select max(id) from batches where queue = wanted))),
   one as (
    select l.*, q.state as halt, q.state_since, b.id as batch_id, b.started_at, b.ended_at, b.phase <> 'ended' as in_batch,
      coalesce(b.phase <> 'ended' and b.closed_at is not null, false) as closing,
      coalesce(b.phase <> 'ended' and b.completed + b.failed > 0, false) as some_ended
    from live l left join q on true left join batch b on true)
  select shown.state,
    case when halt <> 'running' then state_since when shown.state = 'finished' then ended_at
      when in_batch then started_at end, waiting, running, one.batch_id
  from one cross join lateral (select case
    when halt in ('paused', 'stopping', 'stopped') then halt
    when halt = 'not_started' then halt
    when running > 0 or begun or some_ended and waiting > 0 then 'running'
    when waiting > 0 then 'pending'
    when closing then 'running' -- its exit task may come
    when exists (select from ways) then 'finished'
    else 'created' end as state) shown
$$;
