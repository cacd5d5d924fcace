-- Returns whether a queue has a row with settings, or has ever had a task.
create or replace function queue_known(wanted text) returns boolean language sql stable as $$
  select exists (select from queues where name = wanted) or exists (select from routes where queue = wanted)
$$;
