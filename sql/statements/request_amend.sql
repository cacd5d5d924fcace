-- Notes which tasks a changing call changed; of one by a filter, which it chose, with the id after which it goes on (or 0)
-- behind them, and which of those it changed. $1 request id, $2 ids, $3 none, or one for each task chosen: whether it was
-- changed.
update requests set task_ids = $2, existing = $3 where id = $1
