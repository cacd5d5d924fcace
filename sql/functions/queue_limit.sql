-- Sets how many tasks of a queue may execute at once; null: any number. With its first limit the tasks that execute get
-- permits. The lock waits for the claims in flight, which may not know of the limit; all later ones do.
create or replace function queue_limit(of_queue text, most int) returns void language plpgsql as $$
declare
  made bigint;
begin
  if most is null then
    delete from limits where queue = of_queue;
    return;
  end if;
  update limits set maximum = most where queue = of_queue;
  if found then
    return;
  end if;
  lock table assignments in share mode;
  insert into limits (queue, maximum) values (of_queue, most) returning id into made;
  with held as (
    update tasks t set permits = array[made]
    from (select x.id, a.id as assignment_id from assignments a cross join unnest(a.task_ids) x(id)
      where a.closed_at is null order by x.id) h
    where t.id = any(array[h.id]) and t.assignment_id = h.assignment_id and t.status = 'executing' and t.queue = of_queue
    returning t.id)
  update limits set taken = (select count(*) from held) where id = made;
end $$;
