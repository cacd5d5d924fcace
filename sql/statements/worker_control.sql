-- Sets a command for live workers, or withdraws a pause. Commands are rows of task 0 and apply as long as the
-- incarnation lives. A command that exists already is not added again; a new concurrency replaces the old one. Pull
-- clients get no commands. Returns the workers, and notifies the managers, so that the one that has a Fetch of such a
-- worker answers it.
-- takes ControlWorkersRequest: name?, action, concurrency?, @actor, @manager
-- gives ListWorkersResponse.workers: incarnation, name, -
with chosen as materialized (
  select id, name from workers
  where gone_at is null and not lost and not manual and ($1::text is null or name = $1) order by id),
 withdrawn as (
  delete from worker_commands o using chosen c
  where $2::text = 'resume' and o.worker_id = c.id and o.task_id = 0 and o.token = 'epoch' and o.kind = 'pause'
  returning o.worker_id),
 given as (
  insert into worker_commands as o (worker_id, task_id, token, kind, value)
  select id, 0, 'epoch', case $2 when 'scale' then 'concurrency' else $2 end, case $2 when 'scale' then coalesce($3::bigint, 0) end from chosen where $2 <> 'resume' order by id
  on conflict (worker_id, task_id, token, kind) do update set value = excluded.value
  where o.value is distinct from excluded.value
  returning o.worker_id),
 events as (
  insert into worker_events (worker_id, event, actor, note)
  select worker_id, case $2 when 'drain' then 'drain_requested' when 'pause' then 'paused' when 'resume' then 'resumed'
    when 'stop' then 'stop_requested' else 'scaled' end, $4::text, case $2 when 'scale' then 'concurrency ' || coalesce($3, 0) else '' end
  from (select worker_id from withdrawn union all select worker_id from given) changed order by worker_id)
select id, name, pg_notify('reeve_notify', format('command %s %s', $5::bigint, id)) from chosen
