-- Adds new rows to the block-range index task_history_ended, in partitions that may have got rows since the last call.
-- Until then every query by time scans the new rows. Waits for no lock, and leaves the work to autovacuum if the tables
-- belong to another role. Returns the number of ranges added.
create or replace function history_summarize() returns int language plpgsql as $$
declare
  part regclass;
  made int := 0;
begin
  for part in
    select x.indrelid from pg_inherits i join pg_index x on x.indexrelid = i.inhrelid join pg_class c on c.oid = x.indrelid
    where i.inhparent = 'reeve.task_history_ended'::regclass
      and (c.relname !~ '_[0-9]{8}$' or right(c.relname, 8) >= to_char(now() - interval '1 day', 'YYYYMMDD'))
  loop
    begin
      execute format('lock table %s in share update exclusive mode nowait', part);
      made := made + (select sum(brin_summarize_new_values(i.inhrelid)) from pg_inherits i join pg_index x on x.indexrelid = i.inhrelid
        where i.inhparent = 'reeve.task_history_ended'::regclass and x.indrelid = part);
    exception when lock_not_available or insufficient_privilege or undefined_table then
      null;
    end;
  end loop;
  return made;
end $$;
