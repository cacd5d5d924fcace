-- Totals over everything. $1 lease in ms.
select
  (select count(*) from tasks where status = 'queued' and run_at <= statement_timestamp()) as queued,
  (select count(*) from tasks where status = 'queued' and run_at > statement_timestamp()) as delayed,
  (select count(*) from tasks where status = 'executing') as executing,
  (select count(*) from tasks where status = 'failed') as failed,
  h.completed, h.dead, h.cancelled,
  (select count(*) from workers where not lost and not by_hand
    and hb_at >= clock_timestamp() - interval '1ms' * $1::bigint) as alive
from (
  select count(*) filter (where status = 'completed') as completed, count(*) filter (where status = 'dead') as dead,
    count(*) filter (where status = 'cancelled') as cancelled
  from task_history) h
