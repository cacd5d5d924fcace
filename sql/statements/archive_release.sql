-- Lets other managers archive. $1 the manager.
update locks set holder = null where name = 'archive' and holder = $1::bigint
