-- Takes a request id for a change of a queue. Returns the newest task's id when the call first came, and whether it
-- came before. Raises RV400 if the id was used for another kind of call.
create or replace function queue_request(request uuid, out newest bigint, out repeated boolean) language plpgsql as $$
declare
  earlier requests;
begin
  select case when is_called then last_value else 0 end into newest from tasks_id_seq;
  insert into requests (id, kind, task_ids) values (request, 'queue', array[newest]) on conflict do nothing;
  repeated := not found;
  if repeated then
    select * into earlier from requests where id = request;
    if earlier.kind <> 'queue' then
      raise exception using errcode = 'RV400', message = 'the request id was used for another call';
    end if;
    newest := earlier.task_ids[1];
  end if;
end $$;
