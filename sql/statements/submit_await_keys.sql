-- Before a submit into a batch whose keys were seen in use: waits until no open transaction has them. $1 queues,
-- $2 keys.
select keys_await($1::text[], $2::text[])
