-- Returns the state of incarnations, by id. $1 ids.
select id, lost, hb_seq, name, identity from workers where id = any($1::bigint[]) order by id
