-- Replaces the secret of an access token, also of one that has expired. It is valid for `with_valid_ms` from now on, or if that is 0 for
-- as long as the one before was at first. Older secrets stay valid for `grace_ms`, but not longer than they would have been; with 0
-- they all end at once. Returns the token's id, when the secret before ends, and when the new one does; nothing if there is no
-- such token.
create or replace function token_rotate(request uuid, of_name text, secret_hash bytea, grace_ms bigint, with_valid_ms bigint, by text)
returns table (id bigint, old_until timestamptz, expires timestamptz) language plpgsql as $$
#variable_conflict use_column
declare
  i identities;
begin
  select * into i from identities where name = of_name and revoked is null and hash is not null for no key update;
  if not found then
    return;
  end if;
  if batch_request(request, 'token_rotate', i.id) is null then
    delete from old_secrets where identity_id = i.id and (grace_ms = 0 or valid_until <= clock_timestamp());
    insert into old_secrets (identity_id, hash, valid_until)
    select i.id, i.hash, least(clock_timestamp() + interval '1ms' * grace_ms, i.expires)
    where grace_ms > 0 and i.expires > clock_timestamp()
    on conflict do nothing;
    update identities set hash = secret_hash, valid_ms = coalesce(nullif(with_valid_ms, 0), i.valid_ms),
      expires = coalesce(clock_timestamp() + interval '1ms' * coalesce(nullif(with_valid_ms, 0), i.valid_ms), 'infinity')
    where identities.id = i.id returning * into i;
    perform token_event(of_name, 'token_rotated', by, identity_text('{}', null, false, i.expires));
  end if;
  return query select i.id, (select max(valid_until) from old_secrets where identity_id = i.id), i.expires;
end $$;
