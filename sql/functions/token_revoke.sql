-- Ends an identity. Returns its id; nothing if there is none of this name.
create or replace function token_revoke(request uuid, of_name text, by text) returns setof bigint language plpgsql as $$
declare
  of_id bigint;
begin
  select id into of_id from identities where name = of_name and revoked is null for no key update;
  if not found then
    select r.task_ids[1] into of_id from requests r where r.id = request and r.kind = 'token_revoke'; -- a resend
    if not found then
      return;
    end if;
    perform pg_logical_emit_message(true, 'reeve', 'fence');
    return next of_id;
    return;
  end if;
  perform batch_request(request, 'token_revoke', of_id);
  update identities set revoked = clock_timestamp(), revoked_by = by where id = of_id;
  perform token_event(of_name, 'token_revoked', by);
  return next of_id;
end $$;
