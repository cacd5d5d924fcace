-- Batches for display. remaining_ms is an estimate (batch_remaining_ms); -1: not known yet.
-- Of the callbacks that wait or were given up, only the first 1,000 are counted.
create or replace view batches_shown as
  select b.id, b.name, b.queue, b.implicit,
    case when b.phase = 'ended' then 'ended' when b.closed_at is not null then 'closed' else 'open' end as state,
    b.phase, b.submitted, b.pending, b.completed, b.failed, b.created, b.started_at, b.closed_at, b.ended_at,
    took.ms as duration_ms,
    case when b.phase = 'new' then -1 when b.pending = 0 then 0 else batch_remaining_ms(b) end as remaining_ms,
    b.entry_id, b.entry_status, b.exit_id, b.exit_status, b.source,
    (select count(*) from (select from callbacks c where c.batch_id = b.id and c.state = 'waiting' limit 1000) x)
      as callbacks_waiting,
    (select count(*) from (select from callbacks c where c.batch_id = b.id and c.state = 'given_up' limit 1000) x)
      as callbacks_given_up,
    b.stopped
  from batches b cross join lateral (
    select coalesce(extract(epoch from coalesce(b.ended_at, clock_timestamp()) - b.started_at) * 1000, 0)::bigint as ms) took;
