-- Deletes the counters of managers that have been gone for a day.
delete from metrics where manager_id in (
  select id from managers where stopped and hb_at < statement_timestamp() - interval '1 day')
