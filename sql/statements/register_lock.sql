-- Lets one worker of a name register at a time: the next one sees what the one before has committed. Locks until the
-- end of the transaction, always in the same order, so that two managers do not wait for each other. $1 names.
select from locks where name = any(array(select distinct worker_lock(n) from unnest($1::text[]) n)) order by name
for no key update
