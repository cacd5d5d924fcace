-- Returns log lines of a task, in order, with the task's status: a row without a line, if there is none; no row, if there
-- is no such task. One line more than wanted shows that there are more.
-- takes LogsRequest: task_id, after_number, limit, newest
-- gives LogsResponse.lines: number, at_us, attempt, text, .status, .progress, .remark
with task as materialized (select status, remark, started from all_tasks where id = $1),
 lines as (
  (select l.first + u.place - 1 as number, l.at - interval '1ms' * u.age as at, l.attempt, u.text
   from task_logs l cross join lateral unnest(l.lines, l.ages_ms) with ordinality u(text, age, place)
   where not $4::boolean and l.task_id = $1 and l.last > $2 and l.first + u.place - 1 > $2
   order by 1 limit $3::bigint + 1)
  union all
  (select l.first + u.place - 1, l.at - interval '1ms' * u.age, l.attempt, u.text
   from task_logs l cross join lateral unnest(l.lines, l.ages_ms) with ordinality u(text, age, place)
   where $4::boolean and l.task_id = $1 and l.last > $2 and l.first + u.place - 1 > $2
   order by 1 desc limit $3::bigint))
select l.number, l.at, l.attempt::int, l.text, t.status, p.progress, t.remark
from task t left join lines l on true left join task_progress p on p.task_id = $1 and p.token = t.started
order by l.number
