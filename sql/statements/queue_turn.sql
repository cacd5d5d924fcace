-- Whoever ends tasks of a queue takes turns with others, transaction by transaction. $1 queue, $2 whether to wait for one's
-- turn. Answers whether it is.
select case when $2::boolean then (select pg_advisory_xact_lock(hashtextextended('reeve.queue ' || $1::text, 0)))::text is not null
  else pg_try_advisory_xact_lock(hashtextextended('reeve.queue ' || $1::text, 0)) end
