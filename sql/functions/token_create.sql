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
  update identities set revoked = expires, revoked_by = '' where revoked is null and expires <= clock_timestamp()
    and (name = with_name or uid = of_uid);
  insert into identities (id, name, rights, hash, uid, certificate, created_by, expires, valid_ms) overriding system value
  values (made, with_name, with_rights, secret_hash, of_uid, by_certificate, by,
    coalesce(clock_timestamp() + interval '1ms' * nullif(with_valid_ms, 0), 'infinity'), nullif(with_valid_ms, 0))
  on conflict do nothing;
  if not found then
    raise exception using errcode = 'RV440', message = case
      when exists (select from identities where name = with_name and revoked is null)
        then format('there is an identity "%s" already', with_name)
      else format('another identity has the user %s', of_uid) end;
  end if;
  perform token_event(with_name, 'token_created', by, array_to_string(array(select jsonb_array_elements_text(with_rights -> 'roles')), ', '));
  return made;
end $$;
