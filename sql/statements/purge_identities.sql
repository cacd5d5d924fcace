-- Deletes identities that were revoked or have expired more than a year ago, and events that old.
with gone as (
  delete from identities where least(revoked, expires) < statement_timestamp() - interval '365 days' returning id),
 old as (delete from identity_events where at < statement_timestamp() - interval '365 days'),
 secrets as (delete from old_secrets where identity_id in (select id from gone))
delete from identity_uses where identity_id in (select id from gone)
