-- Incarnations as they stand, in the order of their ids. $1 ids.
select id, lost, hb_seq, name from workers where id = any($1::bigint[]) order by id
