-- Takes a request id for a changing call. No row: it came before. $1 request id.
insert into requests (id, task_ids) values ($1, '{}') on conflict do nothing returning id
