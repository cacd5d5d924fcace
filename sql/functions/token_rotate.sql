-- Replaces the secret of an access token. The old one stays valid for `grace_ms`. Returns the token's id and when the old secret
-- ends; nothing if there is no such token.
create or replace function token_rotate(request uuid, of_name text, secret_hash bytea, grace_ms bigint, by text)
returns table (id bigint, old_until timestamptz) language plpgsql as $$
#variable_conflict use_column
declare
  i identities;
begin
  select * into i from identities where name = of_name and revoked is null and hash is not null and expires > clock_timestamp()
  for no key update;
  if not found then
    return;
  end if;
  if batch_request(request, 'token_rotate', i.id) is null then
    update identities set old_hash = hash, old_until = clock_timestamp() + interval '1ms' * grace_ms, hash = secret_hash
    where identities.id = i.id returning * into i;
    perform token_event(of_name, 'token_rotated', by);
  end if;
  return query select i.id, i.old_until;
end $$;
