-- The routes with numbers above $1.
select id, queue, type from routes where id > $1 and labels = '{}' order by id
