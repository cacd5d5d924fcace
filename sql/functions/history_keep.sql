-- Returns the longest retention of any manager, in days. A manager without a heartbeat for a day does not count.
create or replace function history_keep(otherwise int) returns int language sql stable as $$
  select greatest(otherwise, (select max(history_days) from managers where not stopped and hb_at > statement_timestamp() - interval '1 day'))
$$;
