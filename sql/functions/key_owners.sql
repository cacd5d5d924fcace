-- Returns the tasks of taken keys, and the versions, in the order of the keys. Raises RV403 for a key that a submitter may not
-- use: one with an element in `submitters`, its name, uses only those of tasks with a source that begins with it. Else it could
-- replace another identity's task by a newer version, or learn of it.
create or replace function key_owners(in_queues text[], wanted text[], submitters text[])
returns table (n bigint, task_id bigint, version bigint) language plpgsql as $$
#variable_conflict use_column
declare
  foreign_key record;
begin
  if submitters is not null then
    select u.queue, u.key into foreign_key
    from unnest(in_queues, wanted, submitters) u(queue, key, submitter)
    join keys k on k.queue = u.queue and k.key = u.key
    cross join lateral (
      select source from tasks where id = k.task_id
      union all
      select source from task_history h where h.task_id = k.task_id
      limit 1) t
    where split_part(translate(t.source, '@', '/'), '/', 1) <> u.submitter limit 1;
    if found then
      raise exception using errcode = 'RV403',
        message = format('the key "%s" in the queue "%s" is of another caller''s task', foreign_key.key, foreign_key.queue);
    end if;
  end if;
  return query select u.n, k.task_id, k.version
    from unnest(in_queues, wanted) with ordinality u(queue, key, n)
    join keys k on k.queue = any(array[u.queue]) and k.key = any(array[u.key])
    order by u.n;
end $$;
