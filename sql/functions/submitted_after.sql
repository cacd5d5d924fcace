-- Returns an id below those of all tasks that were submitted since a time, where a read of them begins. Ids are in the
-- order of their submits, except those of simultaneous ones, for which it goes back a second and about 100 ids.
create or replace function submitted_after(since timestamptz) returns bigint language plpgsql stable as $$
declare
  low bigint := 0;
  high bigint := greatest((select max(id) from tasks), (select max(task_id) from task_history));
  middle bigint;
  early boolean;
begin
  while high - low > 10 loop
    middle := low + (high - low) / 2;
    select created < since - interval '1 s' into early
    from ((select id, created from tasks where id >= middle order by id limit 1)
      union all
      (select task_id, created from task_history where task_id >= middle order by task_id limit 1)) x
    order by id limit 1;
    if early then
      low := middle;
    else
      high := middle;
    end if;
  end loop;
  return greatest(low - 100, 0);
end $$;
