-- Takes managers that have not been heard of for a day as stopped; one that lives says otherwise with its next tick. Forgets those
-- that stopped long ago. $1 days, if no queue keeps anything longer.
with gone as (
  delete from managers
  where stopped and hb_at < statement_timestamp() - interval '1 day' * ((select longest_keep($1::int)) + 1)
    and coalesce(clock_ahead_until, hb_at) < statement_timestamp())
update managers set stopped = true where not stopped and hb_at < statement_timestamp() - interval '1 day'
