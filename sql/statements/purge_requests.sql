-- Forgets requests older than any that is still taken. $1 the lowest id of that time.
delete from requests where id in (select id from requests where id < $1 order by id limit 20000)
