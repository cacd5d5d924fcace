-- Ends waiting tasks with a requested cancel: as cancelled, or as dead if a code for that is set. $1 ids, $2 the
-- retention in days if their queue does not set it, $3 the error of those that end dead.
with locked as materialized (
  select *, case when stop_code is not null then 'dead' else 'cancelled' end as becomes,
    greatest(clock_timestamp(), last_updated + interval '1us') as ended
  from tasks
  where id = any($1::bigint[]) and status in ('queued', 'failed') and cancel_requested_at is not null
  order by id for no key update),
 gone as materialized (
  select tasks_end(array(
    select (id, becomes, ended, false, null, case when becomes = 'dead' then $3 else last_error end,
      coalesce(stop_code, error_code), remark, stack_trace, null)::task_end
    from locked), $2::int)
  where exists (select from locked))
select id, batch_id is not null as batched, route_id, becomes from locked left join gone on true
