-- Returns the partitions whose day is over, and whether they are archived. Rows of such days in the default partition
-- are not included (history_take_over gives them a partition).
create or replace function history_over(today date) returns table (partition text, archived boolean)
language sql set search_path = reeve, pg_temp as $$
  select c.relname::text, history_archived(c.relname)
  from pg_inherits i join pg_class c on c.oid = i.inhrelid
  where i.inhparent = 'reeve.task_history'::regclass and c.relname ~ '^task_history_[0-9]{8}$'
    and to_date(right(c.relname, 8), 'YYYYMMDD') < today
  order by c.relname
$$;
