-- Records which tasks a changing call changed. For a call by a filter: the tasks that it chose, followed by the id
-- after which it continues (or 0), and which of the chosen tasks it changed. $1 request id, $2 ids, $3 empty, or one
-- element per chosen task: whether it was changed.
update requests set task_ids = $2, existing = $3 where id = $1
