-- Changes live tasks. Of an executing one only the priority and the maximum attempts can change, and its token stays. A
-- due time for an executing task is refused (refused = true), as is a maximum below the attempts so far; then nothing
-- of that task changes.
--   $1 ids, $2 priority or null, $3 run_at or null, $4 max_attempts or null, $5 actor
with locked as materialized (
  select id, status, priority, run_at, max_attempts, last_updated,
    status = 'executing' and $3::timestamptz is not null or coalesce($4::int < attempt, false) as refused
  from tasks where id = any($1::bigint[]) order by id for no key update),
 changed as (
  update tasks t set priority = coalesce($2::int, t.priority),
    run_at = case when $3::timestamptz is null or t.blocked_run_at is not null then t.run_at
      else greatest($3, clock_timestamp()) end,
    blocked_run_at = case when t.blocked_run_at is not null then coalesce($3, t.blocked_run_at) end,
    max_attempts = coalesce($4::int, t.max_attempts),
    last_updated = case when l.status = 'executing' then t.last_updated
      else greatest(clock_timestamp(), t.last_updated + interval '1us') end
  from locked l where t.id = any(array[l.id]) and not l.refused
  returning t.id, t.last_updated, t.run_at, t.route_id, t.priority),
 counted as (
  insert into count_changes (route_id, due, live)
  select c.route_id, v.due, sum(v.live)
  from changed c join locked l on l.id = c.id
  cross join lateral (values (delayed_to(l.run_at, l.last_updated), -1), (delayed_to(c.run_at, c.last_updated), 1)) v(due, live)
  where l.status = 'queued' group by 1, 2 having sum(v.live) <> 0),
 told as (
  insert into task_events (task_id, version, event, actor, note)
  select c.id, c.last_updated, 'updated', $5, concat_ws(', ',
    case when $2 is not null then format('priority %s -> %s', l.priority, $2) end,
    case when $3 is not null then format('run_at %s -> %s', l.run_at, c.run_at) end,
    case when $4 is not null then format('max_attempts %s -> %s', l.max_attempts, $4) end)
  from changed c join locked l on l.id = c.id)
select l.id, l.status, l.refused, c.last_updated, c.run_at, c.route_id, c.priority
from locked l left join changed c on c.id = l.id
