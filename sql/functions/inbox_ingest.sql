-- Ingests tasks of the inbox like inbox_ingest_next, but with a lock timeout of 20 ms. If a row stays locked, it
-- skips the first tasks after the id `beyond` that go together (same queue and batch), and returns the id up to which
-- it came.
create or replace function inbox_ingest(beyond bigint, most int, out walked bigint, out ingested int, out refused bigint[], out code text,
  out reason text)
language plpgsql as $$
#variable_conflict use_column
declare
  a record;
  first record;
begin
  perform set_config('lock_timeout', '20', true);
  select * into walked, ingested, refused, code, reason from inbox_ingest_next(beyond, most);
exception when lock_not_available then
  ingested := 0;
  for a in
    select x.task_id, t.queue, x.batch_id from inbox x left join tasks t on t.id = x.task_id
    where x.task_id > beyond order by x.task_id limit most
  loop
    if walked is null then
      first := a;
    end if;
    exit when (a.queue, a.batch_id) is distinct from (first.queue, first.batch_id);
    walked := a.task_id;
  end loop;
end $$;
