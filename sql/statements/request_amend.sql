-- Notes which tasks a changing call changed; of one by a filter, which it chose, and which of those it changed. $1 request id,
-- $2 ids, $3 one for each id, or none: whether it was changed.
update requests set task_ids = $2, existing = $3 where id = $1
