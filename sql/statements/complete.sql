-- Ends plain attempts that completed: the task moves from `tasks` to the history, and `open` of its journal row is
-- lowered. An attempt that lost its lock does not match its token and is not in the answer; nor is one whose task needs
-- more than that (a batch, a pipeline, permits, a newer version to run next): complete_all and end_attempts end those.
--   one element per attempt, in id order: $1 ids, $2 tokens, $3 results; $4 the retention in days if their queue does
--   not set it
-- The rows of `done` are added up once: each read of them costs.
{part complete_plain},
 ended as materialized (
  select assignment_id, route_id, keep_until, delayed_to(retrying, run_at, token) as due, count(*)::int as n,
    count(retrying)::int as retrying
  from done group by 1, 2, 3, 4),
 ended_counts as (
  insert into count_changes (keep_until, route_id, status, count, due, live, retrying)
  select keep_until, route_id, 'completed', sum(n), due, -sum(n), -sum(retrying) from ended group by 1, 2, 5),
 lowered as (
  update assignments a set open = a.open - e.n, closed_at = case when a.open = e.n then clock_timestamp() end
  from (select assignment_id, sum(n)::int as n from ended group by 1 order by 1) e
  where a.id = any(array[e.assignment_id]))
select id, token, route_id, attempt from done
