-- Gives the identity "admin" a new secret, and creates it if there is none. Returns its id. If `only_first`, it does nothing if an
-- admin has an access token, and returns null: of managers that start at the same time, one creates it.
create or replace function token_admin(secret_hash bytea, only_first boolean) returns bigint language plpgsql as $$
declare
  admin jsonb := '{"roles": ["admin"]}';
  of_id bigint;
begin
  perform from locks where name = 'identities' for no key update;
  if only_first and exists (
      select from identities where revoked is null and expires > clock_timestamp() and hash is not null and rights -> 'roles' ? 'admin') then
    return null;
  end if;
  update identities set hash = secret_hash, uid = null, certificate = false, rights = admin, expires = 'infinity', valid_ms = null
  where name = 'admin' and revoked is null returning id into of_id;
  if found then
    delete from old_secrets where identity_id = of_id;
    perform token_event('admin', 'token_rotated', 'reeve-manager');
  else
    insert into identities (name, rights, hash, created_by) values ('admin', admin, secret_hash, 'reeve-manager') returning id into of_id;
    perform token_event('admin', 'token_created', 'reeve-manager', 'admin');
  end if;
  return of_id;
end $$;
