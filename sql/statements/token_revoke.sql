-- Ends an identity.
-- takes RevokeTokenRequest: @request_id, name, @actor
-- gives RevokeTokenResponse: id, warning
select token_revoke($1::uuid, $2::text, $3::text) as id,
  case when exists (select from identities where name = $2::text and revoked is null and rights -> 'roles' ? 'admin')
    and not exists (
      select from identities
      where name <> $2::text and revoked is null and expires > clock_timestamp() and rights -> 'roles' ? 'admin')
    then 'this was the last identity with the role admin; `reeve-manager --create-admin-token` creates another one' else '' end as warning
