-- Returns for how many days an attempt that is ended by SQL keeps its task, if the queue does not set it: the longest
-- retention of the managers that live, or that of the last one.
create or replace function history_days() returns int language sql stable as $$
  select coalesce(history_keep(null), (select history_days from managers where history_days is not null order by hb_at desc limit 1), 30)
$$;
