-- Returns what managers need to know of every identity that is valid, if that has changed. The last two columns of each row,
-- or of one without an id if there is none, are the fingerprint of all and the key of credentials; if the fingerprint is $1, the
-- row has no more.
-- xmin changes with each change of a row, whatever makes it, and in any order of commits.
with f as materialized (
  select count(*) || ' ' || coalesce(sum(hashtextextended(id || ' ' || xmin, 0)), 0) as print from identities where revoked is null)
select i.id, i.name, i.rights::text, i.hash, case when i.old_until > clock_timestamp() then i.old_hash end as old_hash,
  i.old_until, i.uid, i.expires, i.certificate, f.print, (select key from credential_key where id = 1)
from f left join identities i on f.print <> $1::text and i.revoked is null and i.expires > clock_timestamp()
order by i.id
