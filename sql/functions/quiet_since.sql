-- Returns whether no task of a queue, except of one type, has ended since a moment. Also false if 10,000 or more tasks
-- of all queues have ended since: too many to check.
create or replace function quiet_since(of_queue text, but_type text, moment timestamptz) returns boolean
language sql stable set enable_seqscan = off as $$
  select count(*) < 10000 and not coalesce(bool_or(queue = of_queue and type <> but_type), false)
  from (select queue, type from task_history
    where last_updated > moment and keep_until >= (moment at time zone 'UTC')::date limit 10000) h
$$;
