-- Takes managers that have not been heard of for a day as stopped. One that lives says otherwise with its next tick.
update managers set stopped = true where not stopped and hb_at < statement_timestamp() - interval '1 day'
