-- Notes how many tasks there are, if that has not been done in this minute (see the function).
--   $1 how many queues have rows of their own
select depths_sample($1::int)
