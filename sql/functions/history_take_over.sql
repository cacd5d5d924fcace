-- Moves up to `most` rows, and about 64 MiB, of the oldest past day out of the default partition, into a table that
-- becomes that day's partition with the last of them. Until then queries do not see these rows, but they are about to be deleted anyway.
-- Returns whether there is more to move; false if another manager does it.
create or replace function history_take_over(today date, most int) returns boolean language plpgsql as $$
declare
  day date;
  name text;
  more boolean;
begin
  if not exists (select from task_history_default where keep_until < today) then
    return false;
  end if;
  -- Do not wait for another manager that does this: it waits until no session reads the default partition.
  perform from locks l where l.name = 'history' for no key update skip locked;
  day := (select min(keep_until) from task_history_default where keep_until < today);
  if not found or day is null then
    return false;
  end if;
  name := 'task_history_' || to_char(day, 'YYYYMMDD');
  if to_regclass('reeve.' || name) is null then
    perform create_history_partition(name);
  end if;
  execute format('with moved as (
      delete from reeve.task_history_default where ctid = any(array(
        select place from (
          select place, sum(bytes) over (rows between unbounded preceding and 1 preceding) as before from (
            select ctid as place, octet_length(details) + coalesce(octet_length(result), 0) + coalesce(octet_length(stack_trace), 0) as bytes
            from reeve.task_history_default where keep_until = %L limit %s) d) p
        where before is null or before < 67108864)) returning *)
    insert into reeve.%I select * from moved', day, most, name);
  more := exists (select from task_history_default where keep_until = day);
  if not more then
    execute format('alter table reeve.task_history attach partition reeve.%I for values from (%L) to (%L)', name, day, day + 1);
  end if;
  return exists (select from task_history_default where keep_until < today);
end $$;
