-- Forgets incarnations that are long gone and hold nothing. $1 days.
delete from workers w
where w.lost and w.gone_at < statement_timestamp() - interval '1 day' * ($1::int + 1)
  and not exists (select from assignments a where a.worker_id = w.id and a.closed_at is null)
