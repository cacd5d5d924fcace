-- Creates an identity and returns its id. It is one of a token, a local user or a certificate. Raises RV440 if another one has its name or
-- user.
create or replace function token_create(request uuid, with_name text, with_rights jsonb, secret_hash bytea, of_uid bigint,
  by_certificate boolean, with_valid_ms bigint, by text) returns bigint language plpgsql as $$
declare
  made bigint := nextval(pg_get_serial_sequence('identities', 'id'));
  before bigint := batch_request(request, 'token_create', made);
begin
  if before is not null then
    return before;
  end if;
  -- An expired one makes room for another of its name.
  update identities set revoked = expires where revoked is null and expires <= clock_timestamp()
    and (name = with_name or uid = of_uid);
  insert into identities (id, name, rights, hash, uid, certificate, created_by, expires, valid_ms) overriding system value
  values (made, with_name, with_rights, secret_hash, of_uid, by_certificate, by,
    coalesce(clock_timestamp() + interval '1ms' * nullif(with_valid_ms, 0), 'infinity'), nullif(with_valid_ms, 0))
  on conflict do nothing;
  if not found then
    raise exception using errcode = 'RV440', message = case
      when exists (select from identities where name = with_name and revoked is null)
        then format('there is an identity "%s" already', with_name)
      else format('the identity "%s" has the user %s', (select name from identities where uid = of_uid and revoked is null), of_uid) end;
  end if;
  perform token_event(with_name, 'token_created', by,
    (select identity_text(rights, uid, certificate, expires) from identities where id = made));
  return made;
end $$;
