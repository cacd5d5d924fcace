-- All routes.
select id, queue, type from routes where labels = '{}' order by id
