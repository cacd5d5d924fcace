-- Ends an attempt as its client reports by SQL. Returns the status of its task afterwards. If the attempt has lost its lock,
-- nothing changes, the audit has one late_result, and it returns null; a repeated report gets the answer of the first one.
create or replace function attempt_report(of_task bigint, of_token bigint, outcome text, result text, error text, code text, remark text,
  stack_trace text, delay_ms bigint, stage text) returns text language plpgsql as $$
#variable_conflict use_variable
declare
  held constant timestamptz := us_time(of_token);
  days constant int := history_days();
  ended record;
  late record;
begin
  if of_task is null or of_token is null then
    raise exception using errcode = '22004', message = case when of_task is null then 'id' else 'token' end || ' is NULL';
  end if;
  if code is not null then
    perform check_name('code', code);
  end if;
  if stage is not null then
    perform check_name('stage', stage);
  end if;
  if octet_length(remark) > LIMIT_REMARK_BYTES or octet_length(stack_trace) > LIMIT_STACK_BYTES then
    raise exception using errcode = '22001', message = case when octet_length(remark) > LIMIT_REMARK_BYTES
      then 'remark has more than LIMIT_REMARK_BYTES' else 'stack_trace has more than LIMIT_STACK_BYTES' end || ' bytes';
  elsif greatest(octet_length(result), octet_length(error)) > max_details() then
    raise exception using errcode = '22001', message = format('%s has %s bytes; at most %s are allowed',
      case when octet_length(result) > max_details() then 'result' else 'error' end, greatest(octet_length(result), octet_length(error)),
      max_details());
  end if;
  perform from tasks t where t.id = of_task and t.last_updated = held for no key update;
  perform reporters_note(array[of_task], array[held], array[session_user::text], array[outcome]);
  if outcome = 'completed' and stage is null then
    perform attempts_complete(array[of_task], array[held], array[coalesce(result, '')], days, array[nullif(remark, '')]);
    if found then
      return 'completed';
    end if;
  end if;
  select e.becomes, e.route_id, e.priority, e.due into ended
  from attempts_end(array[of_task], array[held], array[outcome], array[error], array[code], true, days, array[nullif(remark, '')],
    array[nullif(stack_trace, '')], array[delay_ms], array[coalesce(result, '')], array[stage]) e;
  if found then
    if ended.becomes in ('queued', 'failed') and isfinite(ended.due) then
      perform pg_notify('reeve_notify', format('0 %s %s %s', ended.route_id, ended.priority, time_us(ended.due)));
    end if;
    return ended.becomes;
  end if;
  select l.reported, l.known into late from attempts_late(array[of_task], array[held], array[outcome], array[0::bigint],
    array[null::bigint], array[session_user::text]) l;
  if not late.known then
    raise exception using errcode = 'P0002', message = format('there is no task %s', of_task);
  end if;
  return (select case when late.reported then coalesce(
    (select h.status from task_history h where h.task_id = of_task and h.token = held),
    (select a.status from task_attempts a where a.task_id = of_task and a.token = held)) end);
end $$;
