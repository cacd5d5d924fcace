-- What is looked through for rows to forget is walked a page at a time, by these.
drop index task_attempts_when;
create index task_attempts_when on task_attempts (last_updated, task_id);
drop index task_events_at;
create index task_events_at on task_events (at, id);
drop index task_events_task;
create index task_events_task on task_events (task_id, id);
create index workers_gone on workers (gone_at) where gone_at is not null;

-- As before, of the last thousand attempts: a key that is run again and again has one task.
create or replace function attempts_told(of_task bigint, task_status text, task_error text, task_recoverable boolean, task_started timestamptz,
  task_ended timestamptz) returns table (error_count int, recoverable boolean, processing_ms bigint)
language sql stable as $$
  select (coalesce(a.bad, 0) + (task_status = 'dead' and by_attempt)::int)::int,
    case when task_status in ('dead', 'cancelled') then task_recoverable
      when task_error is not null then a.last_bad <> 'dead' end,
    (case when by_attempt then extract(epoch from task_ended - task_started) * 1000 else a.took end)::bigint
  from (
    select count(*) filter (where bad) as bad, coalesce(bool_or(token = task_started), false) as known,
      (array_agg(outcome order by token desc) filter (where bad))[1] as last_bad,
      (array_agg(extract(epoch from last_updated - token) * 1000 order by token desc)
        filter (where outcome <> 'taken_back'))[1] as took
    from (
      select *, outcome in ('failed', 'fatal', 'expired', 'lost', 'dead')
        or outcome in ('lease_ended', 'taken_back') and status in ('failed', 'dead') as bad
      from task_attempts where task_id = of_task order by token desc limit 1000) b) a
  cross join lateral (select task_ended is not null and task_started is not null and not a.known as by_attempt) e
$$;

-- As before, but for what is replaced here; a function that has not the place for it stops the migration.
create function replace_in_function(what regproc, place text, becomes text) returns void language plpgsql as $$
declare
  before constant text := pg_get_functiondef(what);
  after constant text := replace(before, place, becomes);
begin
  if after = before then
    raise exception 'the function % has no place like "%"', what, place;
  end if;
  execute after;
end $$;
do $$ begin
  -- A transaction's number that this cluster has not come to is another one's: its dump was restored here. The summary is made by
  -- the statement that calls this.
  perform replace_in_function('executions_roll', 'if pg_snapshot_xmin(pg_current_snapshot()) > r.next_xid then',
    'if r.next_xid >= pg_snapshot_xmax(pg_current_snapshot()) then
    r.next_at := null;
    r.next_xid := null;
  end if;
  if pg_snapshot_xmin(pg_current_snapshot()) > r.next_xid then');
  perform replace_in_function('executions_roll', 'perform history_summarize();', '');
  -- What tells of a batch's end starts no queue; anybody else may call himself so.
  perform replace_in_function('queue_stops', 't.source not like ''callback of batch %''',
    'not exists (select from batches b where b.callback_type = t.type
        and b.id = substring(t.source from ''^callback of batch ([0-9]{1,18})$'')::bigint offset 0 limit 1)');
end $$;
drop function replace_in_function(regproc, text, text);

-- Moves rows of the oldest day that is over out of the default partition, so many at a time, into a table that becomes that day's
-- partition with the last of them. Until then nobody sees them, but they are about to go. Returns whether there is more to move; not
-- if another manager does it.
create function history_take_over(today date, most int) returns boolean language plpgsql as $$
declare
  day date;
  name text;
  more boolean;
begin
  if not exists (select from task_history_default where keep_until < today) then
    return false;
  end if;
  -- Another manager that is at it must not be waited for: it waits until nobody reads the default partition.
  perform from locks l where l.name = 'history' for no key update skip locked;
  day := (select min(keep_until) from task_history_default where keep_until < today);
  if not found or day is null then
    return false;
  end if;
  name := 'task_history_' || to_char(day, 'YYYYMMDD');
  if to_regclass('reeve.' || name) is null then
    execute format('create table reeve.%I (like reeve.task_history including all)', name);
  end if;
  execute format('with moved as (
      delete from reeve.task_history_default where ctid = any(array(
        select ctid from reeve.task_history_default where keep_until = %L limit %s)) returning *)
    insert into reeve.%I select * from moved', day, most, name);
  more := exists (select from task_history_default where keep_until = day);
  if not more then
    execute format('alter table reeve.task_history attach partition reeve.%I for values from (%L) to (%L)', name, day, day + 1);
  end if;
  return exists (select from task_history_default where keep_until < today);
end $$;

-- As before, without what is in the default partition.
create or replace function history_over(today date) returns table (partition text, archived boolean) language sql as $$
  select c.relname::text, exists (select from archives a where a.partition = c.relname and a.dropped is null)
  from pg_inherits i join pg_class c on c.oid = i.inhrelid
  where i.inhparent = 'reeve.task_history'::regclass and c.relname ~ '^task_history_[0-9]{8}$'
    and to_date(right(c.relname, 8), 'YYYYMMDD') < today
  order by c.relname
$$;
