-- Returns the oldest partition of the history to archive; null if there is none. No row: another manager is archiving,
-- and sent a heartbeat within the last 10 s. $1 the manager.
with ours as (
  update locks l set holder = $1
  where l.name = any(array(select name from locks where name = 'archive' for no key update skip locked)) and $1::bigint <> 0
    and not exists (select from managers m
      where m.id = l.holder and m.id <> $1 and not m.stopped and m.hb_at > clock_timestamp() - interval '10 s')
  returning true)
select (select partition from history_over((statement_timestamp() at time zone 'UTC')::date) where not archived limit 1)
from (select history_take_over((statement_timestamp() at time zone 'UTC')::date, 50000) from ours offset 0) moved
