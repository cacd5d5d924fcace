-- Continues the stops of queues. A stopping queue without tasks from before the stop becomes stopped. A stopped queue
-- that has got a task since, from a manager that did not know of the stop, starts again, as with any submit; callback
-- tasks wait until it is started. Returns the queues with tasks to end, up to which id, and who stopped them. It runs
-- repeatedly while any queue is stopped, so it finds tasks by the index tasks_ready, however many tasks other queues
-- have: "lane is null" and "id + 0" are for that.
create or replace function queue_stops() returns table (name text, up_to bigint, by text) language plpgsql as $$
#variable_conflict use_column
declare
  q queues;
  ways int[];
begin
  for q in select * from queues where state in ('stopping', 'stopped') order by name loop
    ways := array(select id from routes where queue = q.name);
    if exists (select from tasks t where t.route_id = any(ways) and t.lane is null and t.id + 0 <= q.stopped_id
      and (q.state = 'stopping' and (t.status <> 'executing' or t.cancel_requested_at is null)
        or q.state = 'stopped' and t.last_updated <= q.stopped_at)) then
      return query select q.name, q.stopped_id, q.stopped_by;
    elsif q.state = 'stopping' then
      update queues set state = 'stopped', state_since = clock_timestamp(), updated = clock_timestamp()
      where name = q.name and state = 'stopping' and not exists (
        select from tasks t where t.route_id = any(ways) and t.lane is null and t.id + 0 <= q.stopped_id);
      if found then
        perform queue_event(q.name, 'queue_stopped', q.stopped_by);
      end if;
    elsif exists (select from tasks t
      where t.route_id = any(ways) and t.lane is null and t.source !~ '^callback of batch [0-9]+$') then
      update queues set state = case when autostart then 'running' else 'not_started' end, state_since = clock_timestamp(),
        updated = clock_timestamp(),
        waiting_until = case when waiting_ms > 0 then clock_timestamp() + interval '1ms' * waiting_ms end
      where name = q.name and state = 'stopped';
      if found then
        perform queue_event(q.name, 'queue_started', '', 'a task was submitted');
      end if;
    end if;
  end loop;
end $$;
