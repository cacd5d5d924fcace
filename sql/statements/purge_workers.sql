-- Forgets incarnations that are long gone and hold nothing. $1 days, if no queue keeps anything longer.
delete from workers w
where w.lost and w.gone_at < statement_timestamp() - interval '1 day' * (longest_keep($1::int) + 1)
  and not exists (select from assignments a where a.worker_id = w.id and a.closed_at is null)
