-- Returns whether a file has all tasks of a partition. While the database's clock was ahead, or a transaction was open for
-- days, a partition may have got tasks after it was archived: it is archived again.
create or replace function history_archived(of_partition text) returns boolean language plpgsql stable
set search_path = reeve, pg_temp as $$
declare
  archived constant bigint := (select tasks from archives where partition = of_partition and dropped is null order by id desc limit 1);
  present bigint;
begin
  if archived is not null then
    execute format('select count(*) from reeve.%I', of_partition) into present;
  end if;
  return coalesce(present = archived, false);
end $$;
