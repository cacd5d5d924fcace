-- Goes on with queues that are being stopped: one of which nothing made before the stop is left is stopped; one that is
-- stopped and has got a task since, by a manager that had not heard of it, starts again, as with any submit. Callback tasks
-- wait until it is started. Answers the queues that have tasks to be ended, up to which id, and who wants it. It is asked
-- again and again while any queue is stopped, so that tasks are found by tasks_ready, however many other queues have: that
-- is what "lane is null" and "id + 0" are for.
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
        perform queue_told(q.name, 'queue_stopped', q.stopped_by);
      end if;
    elsif exists (select from tasks t
      where t.route_id = any(ways) and t.lane is null and t.source !~ '^callback of batch [0-9]+$') then
      update queues set state = case when autostart then 'running' else 'held' end, state_since = clock_timestamp(),
        updated = clock_timestamp()
      where name = q.name and state = 'stopped';
      if found then
        perform queue_told(q.name, 'queue_started', '', 'a task was submitted');
      end if;
    end if;
  end loop;
end $$;
