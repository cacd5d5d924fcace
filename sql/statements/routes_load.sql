-- The routes in use.
select id, queue, type from routes where labels = '{}' and unused_since is null order by id
