-- Rows to lock, where one manager at a time may do something. An advisory lock would do as well, but any database role may
-- take one; these rows are locked only by those who may update the table.
--   history    making partitions of the history
--   metrics    counting the metrics after new ones were made
--   archive    writing the history to files: `holder` is the manager that does, across its transactions
--   worker N   registering a worker whose name has that hash
create table locks (
  name text primary key,
  holder bigint);
insert into locks (name)
select unnest(array['history', 'metrics', 'archive']) union all select 'worker ' || n from generate_series(0, 63) n;

-- The lock under which a worker of that name registers.
create function worker_lock(worker text) returns text language sql immutable parallel safe as $$
  select 'worker ' || (hashtext(worker) & 63)
$$;

-- As before, with the row in place of an advisory lock; without it where there is nothing to do.
create or replace function make_history_partitions(first date, days int) returns int language plpgsql as $$
declare
  day date;
  name text;
  made int := 0;
begin
  for day in select first + n from generate_series(0, days - 1) n loop
    name := 'task_history_' || to_char(day, 'YYYYMMDD');
    if to_regclass('reeve.' || name) is null then
      if made = 0 then
        perform from locks l where l.name = 'history' for no key update;
      end if;
      if to_regclass('reeve.' || name) is null then -- nobody made it while this waited
        execute format('create table reeve.%I (like reeve.task_history including all)', name);
        execute format('with moved as (delete from reeve.task_history_default where keep_until = %L returning *)
          insert into reeve.%I select * from moved', day, name);
        execute format('alter table reeve.task_history attach partition reeve.%I for values from (%L) to (%L)',
          name, day, day + 1);
        made := made + 1;
      end if;
    end if;
  end loop;
  return made;
end $$;

create or replace function metrics_put(in_categories text[], in_names text[], new_values float8[], by text, most int) returns timestamptz
language plpgsql as $$
#variable_conflict use_column
declare
  made bigint;
begin
  with put as (
    insert into metrics as m (category, name, value, source)
    select distinct on (category, name) category, name, value, by
    from unnest(in_categories, in_names, new_values) with ordinality u(category, name, value, n)
    order by category, name, n desc
    on conflict (category, name) do update set value = excluded.value, source = excluded.source,
      updated = greatest(clock_timestamp(), m.updated),
      changed = case when m.value = excluded.value then m.changed else greatest(clock_timestamp(), m.updated) end
    returning m.xmax = 0 as made)
  select count(*) filter (where put.made) into made from put;
  if made > 0 then
    perform from locks where name = 'metrics' for no key update; -- what others have made is counted when it is committed
    if (select count(*) from metrics where manager_id is null) > most then
      raise exception using errcode = 'RV429',
        message = format('there are %s metrics already, as many as there may be; no further names are taken', most);
    end if;
  end if;
  return clock_timestamp();
end $$;

-- Admits arrivals as before, but passes over those whose batch, queue or task somebody has locked: the next walk finds them.
-- Those behind the first of them that go to the same batch of the same queue are passed over with it.
alter function arrivals_admit(bigint, int) rename to arrivals_admit_next;
create function arrivals_admit(beyond bigint, most int, out walked bigint, out admitted int, out refused bigint[], out code text,
  out reason text)
language plpgsql as $$
#variable_conflict use_column
declare
  a record;
  first record;
begin
  perform set_config('lock_timeout', '20', true);
  select * into walked, admitted, refused, code, reason from arrivals_admit_next(beyond, most);
exception when lock_not_available then
  admitted := 0;
  for a in
    select x.task_id, t.queue, x.batch_id from arrivals x left join tasks t on t.id = x.task_id
    where x.task_id > beyond order by x.task_id limit most
  loop
    if walked is null then
      first := a;
    end if;
    exit when (a.queue, a.batch_id) is distinct from (first.queue, first.batch_id);
    walked := a.task_id;
  end loop;
end $$;

-- One event for an attempt whose result came too late, however often it is reported.
delete from task_events e using task_events o
where e.event = 'late_result' and o.event = 'late_result' and e.task_id = o.task_id and e.version = o.version and o.id < e.id;
create unique index task_events_late on task_events (task_id, version) where event = 'late_result';
