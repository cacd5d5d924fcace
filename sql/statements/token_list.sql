-- Lists identities by name; one more than requested shows that there are more.
-- takes ListTokensRequest: after_name, limit
-- gives ListTokensResponse.tokens: id, name, rights, local_user, uid, certificate, created_us, created_by, expires_us, last_used_us,
--   old_secret_until_us
select i.id, i.name, i.rights, i.uid is not null, coalesce(i.uid, 0), i.certificate, i.created, i.created_by, i.expires, u.last_used,
  (select max(valid_until) from old_secrets o where o.identity_id = i.id and valid_until > clock_timestamp())
from identities i left join identity_uses u on u.identity_id = i.id
where i.revoked is null and i.name > $1::text
order by i.name limit $2::bigint + 1
