-- Marks managers without a heartbeat for a day as stopped; a live one undoes that with its next heartbeat. Deletes
-- those that stopped long ago. $1 the retention in days, if no queue or manager has a longer one.
with gone as (
  delete from managers
  where stopped and hb_at < statement_timestamp() - interval '1 day' * ((select longest_keep($1::int)) + 1)
    and coalesce(clock_ahead_until, hb_at) < statement_timestamp())
update managers set stopped = true where not stopped and hb_at < statement_timestamp() - interval '1 day'
