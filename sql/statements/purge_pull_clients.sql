-- Ends the incarnations of pull clients that registered more than a day ago and have no tasks: pull clients do not
-- report that they leave. One may claim a task at the same time, unseen: the mode says that this does not end the attempt
-- (lost_find.sql).
with gone as (
  update workers w set lost = true, gone_at = clock_timestamp(), mode = 'draining'
  where w.gone_at is null and not w.lost and w.manual and w.registered < statement_timestamp() - interval '1 day'
    and not exists (select from assignments a where a.worker_id = w.id and a.closed_at is null)
  returning w.id)
insert into worker_events (worker_id, event, note)
select id, 'left', 'a pull client without tasks for a day' from gone
