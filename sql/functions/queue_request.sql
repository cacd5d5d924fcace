-- Takes a request id for a change of a queue (batch_request). Returns the newest task's id when the call first came, and whether
-- it came before.
create or replace function queue_request(request uuid, out newest bigint, out repeated boolean) language plpgsql as $$
declare
  before bigint;
begin
  select case when is_called then last_value else 0 end into newest from tasks_id_seq;
  before := batch_request(request, 'queue', newest);
  repeated := before is not null;
  newest := coalesce(before, newest);
end $$;
