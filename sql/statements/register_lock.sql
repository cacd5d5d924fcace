-- One worker of a name registers at a time: the next one sees what the one before has committed. Until the end of the
-- transaction; always in the same order, so that two managers do not wait for each other. $1 names.
select pg_advisory_xact_lock(hashtext('reeve.worker'), hash)
from (select distinct hashtext(name) as hash from unnest($1::text[]) name order by 1 offset 0) x
