-- Forgets incarnations that are long gone and hold nothing. $1 days, if no queue keeps anything longer. (ORDER BY keeps each look for an
-- open row to its index, however few workers the journal's rows are of.)
delete from workers where id = any(array(
  select w.id from workers w
  where w.gone_at < statement_timestamp() - interval '1 day' * ((select longest_keep($1::int)) + 1) and w.lost
    and not exists (select from assignments a where a.worker_id = w.id and a.closed_at is null order by a.fetch_id offset 0 limit 1)
  order by w.gone_at limit 5000))
