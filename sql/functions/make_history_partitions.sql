-- Creates the partitions of task_history for the days [first, first + days) that do not exist yet, each created apart and then attached, so
-- that nobody waits long. What the default partition has of these days moves along, 50,000 rows in all: days with more keep theirs
-- there until the next call or, if one alone has so many, until it is over (history_take_over). Returns how many it created.
create or replace function make_history_partitions(first date, days int) returns int language plpgsql as $$
declare
  day date;
  name text;
  made int := 0;
  may_move int := 50000;
  moving int;
begin
  for day in select first + n from generate_series(0, days - 1) n loop
    name := 'task_history_' || to_char(day, 'YYYYMMDD');
    continue when to_regclass('reeve.' || name) is not null;
    if made = 0 then
      perform from locks l where l.name = 'history' for no key update;
      continue when to_regclass('reeve.' || name) is not null; -- somebody made it while this waited
    end if;
    select count(*) into moving from (select from task_history_default where keep_until = day limit may_move + 1) x;
    continue when moving > may_move;
    may_move := may_move - moving;
    execute format('create table reeve.%I (like reeve.task_history including all)', name);
    execute format('with moved as (delete from reeve.task_history_default where keep_until = %L returning *)
      insert into reeve.%I select * from moved', day, name);
    execute format('alter table reeve.task_history attach partition reeve.%I for values from (%L) to (%L)', name, day, day + 1);
    made := made + 1;
  end loop;
  return made;
end $$;
