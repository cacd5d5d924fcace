-- Takes a request id for a changing call. No row: the id came before. $1 request id, $2 which call.
insert into requests (id, kind, task_ids) values ($1, $2, '{}') on conflict do nothing returning id
