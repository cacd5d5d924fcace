-- The longest that any manager keeps anything, in days. One that has been silent for a day is not there any more.
create or replace function history_keep(otherwise int) returns int language sql stable as $$
  select greatest(otherwise, (select max(history_days) from managers where not stopped and hb_at > statement_timestamp() - interval '1 day'))
$$;
