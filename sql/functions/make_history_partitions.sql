-- Creates the partitions of task_history for the days [first, first + days) that do not exist yet, and returns how many
-- it created. Each is created separately and then attached, so that no session waits long. Rows of these days in the
-- default partition move along, up to 50,000 in all. A day with more rows keeps them there until the next call or, if
-- it alone has so many, until it is over (history_take_over).
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
      continue when to_regclass('reeve.' || name) is not null; -- another session created it during the wait
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
