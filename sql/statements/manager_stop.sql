-- A manager has ended. $1 its id.
update managers set stopped = true where id = $1
