-- Adds the rows of `moved`, tasks that have left `tasks`, to the history. No other text does.
 history as (
  insert into task_history (keep_until, task_id, route_id, {kept}, status, run_at, attempt, assignment_id, token, by_report,
    result, last_error, error_code, first_started, started, last_updated, remark, stack_trace, recoverable)
  select keep_until, id, route_id, {kept}, status, run_at, attempt, assignment_id, token, by_report,
    result, last_error, error_code, first_started, started, ended, remark, stack_trace, recoverable
  from moved)
