-- Makes the routes that do not exist yet. $1 queues, $2 types.
insert into routes (queue, type)
select distinct queue, type from unnest($1::text[], $2::text[]) u(queue, type) order by queue, type
on conflict do nothing
