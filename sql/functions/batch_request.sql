-- Takes a request id for a call that creates or changes the batch `of_batch` (or a pipeline, schedule or run with that
-- id). Returns null if the id is new, else the batch of the earlier call. In that case the transaction writes a log
-- record, so that its commit waits for synchronous standbys: they then have what the answer reports. Raises RV400 if
-- the id was used for another kind of call.
create or replace function batch_request(request uuid, which text, of_batch bigint) returns bigint language plpgsql as $$
declare
  r requests;
begin
  insert into requests (id, kind, task_ids) values (request, which, array[of_batch]) on conflict do nothing;
  if found then
    return null;
  end if;
  perform pg_logical_emit_message(true, 'reeve', 'fence');
  select * into r from requests where id = request;
  if not found then
    raise exception using errcode = '40001', message = 'a request has expired';
  elsif r.kind <> which then
    raise exception using errcode = 'RV400', message = 'the request id was used for another call';
  end if;
  return r.task_ids[1];
end $$;
