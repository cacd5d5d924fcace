-- Whether somebody has set something of a queue, or a task was ever in it.
create or replace function queue_known(wanted text) returns boolean language sql stable as $$
  select exists (select from queues where name = wanted) or exists (select from routes where queue = wanted)
$$;
