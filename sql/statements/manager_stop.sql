-- Records that a manager stops. $1 its id.
update managers set stopped = true where id = $1
