-- Notes which tasks a changing call changed. $1 request id, $2 ids.
update requests set task_ids = $2 where id = $1
