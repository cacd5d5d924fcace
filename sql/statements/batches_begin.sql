-- At the end of a submit: begins those of its batches that have just got their first task. $1 ids.
select batches_begin($1::bigint[])
