-- Returns what managers need to know of every identity that is valid, if that has changed: a row for each, and one for each of its
-- older secrets that is still valid. The last two columns of each row,
-- or of one without an id if there is none, are the fingerprint of all and the key of credentials; if the fingerprint is $1, the
-- row has no more.
-- xmin changes with each change of a row, whatever makes it, and in any order of commits. What is valid also changes with the
-- clock, which may be set back.
with f as materialized (
  select concat_ws(' ', count(*), sum(hashtextextended(id || ' ' || xmin, 0)), count(*) filter (where expires > clock_timestamp()),
    (select count(*) from old_secrets where valid_until > clock_timestamp())) as print from identities where revoked is null)
select i.id, i.name, i.rights::text, s.hash, s.valid_until, i.uid, i.certificate, f.print, (select key from credential_key where id = 1)
from f left join (
  identities i join lateral (
    select i.hash, i.expires as valid_until union all select hash, valid_until from old_secrets where identity_id = i.id) s
  on i.revoked is null and i.expires > clock_timestamp() and s.valid_until > clock_timestamp()) on f.print <> $1::text
order by i.id
