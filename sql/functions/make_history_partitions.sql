-- Creates the partitions of task_history for the days [first, first + days) that do not exist yet, and returns how many
-- it created. Each is created separately and then attached, so that no session waits long. Rows of these days in the
-- default partition move along, up to 50,000 and 64 MiB in all. A day with more keeps them there until the next call or,
-- if it alone has so many, until it is over (history_take_over).
create or replace function make_history_partitions(first date, days int) returns int language plpgsql
set search_path = reeve, pg_temp as $$
declare
  day date;
  name text;
  made int := 0;
  may_move int := 50000;
  may_write bigint := 67108864;
  moving int;
  writing bigint;
begin
  for day in select first + n from generate_series(0, days - 1) n loop
    name := 'task_history_' || to_char(day, 'YYYYMMDD');
    continue when to_regclass('reeve.' || name) is not null;
    if made = 0 then
      perform from locks l where l.name = 'history' for no key update;
      -- Another session created it during the wait. to_regclass may still return what it returned before that.
      continue when exists (select from pg_class c where c.relname = name and c.relnamespace = 'reeve'::regnamespace);
    end if;
    select count(*), coalesce(sum(octet_length(details) + coalesce(octet_length(result), 0) + coalesce(octet_length(stack_trace), 0)), 0)
    into moving, writing
    from (select details, result, stack_trace from task_history_default where keep_until = day limit may_move + 1) x;
    continue when moving > may_move or writing > may_write;
    may_move := may_move - moving;
    may_write := may_write - writing;
    perform create_history_partition(name);
    execute format('with moved as (delete from reeve.task_history_default where keep_until = %L returning *)
      insert into reeve.%I select * from moved', day, name);
    execute format('alter table reeve.task_history attach partition reeve.%I for values from (%L) to (%L)', name, day, day + 1);
    made := made + 1;
  end loop;
  return made;
end $$;
