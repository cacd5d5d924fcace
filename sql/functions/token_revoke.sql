-- Ends an identity. Returns its id; nothing if there is none of this name.
create or replace function token_revoke(request uuid, of_name text, by text) returns setof bigint language plpgsql as $$
declare
  of_id bigint;
  before bigint;
begin
  -- A resend finds the identity of the first time, whatever has that name now.
  select r.task_ids[1] into before from requests r where r.id = request and r.kind = 'token_revoke';
  if found then
    perform pg_logical_emit_message(true, 'reeve', 'fence');
    return next before;
    return;
  end if;
  select id into of_id from identities where name = of_name and revoked is null for no key update;
  if not found then
    return;
  end if;
  before := batch_request(request, 'token_revoke', of_id);
  if before is not null then
    return next before;
    return;
  end if;
  update identities set revoked = clock_timestamp() where id = of_id;
  perform token_event(of_name, 'token_revoked', by);
  return next of_id;
end $$;
