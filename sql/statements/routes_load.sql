-- Returns the routes in use.
select id, queue, type from routes where labels = '{}' and retired is null order by id
