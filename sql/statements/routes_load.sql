-- Returns the routes in use.
select id, queue, type from routes where retired is null order by id
