-- Returns a page of the events of one task, in order. The last row has no event; if there may be another page, its
-- next_page is the event after which that begins: its turn, place and time, and its number among those with the same.
-- The turn of an event is its version; that of a late or refused result, whose version is its attempt's token, is its time, since
-- it may have come after the event that had ended that attempt. `newest`: returns no events, but the event after which the
-- newest begin.
-- takes AuditRequest: task_id, since_us?, until_us?, limit, page?, newest, events?, worker?, actor?
-- gives AuditResponse.events: at_us, task_id, token, event, worker, worker_id, attempt, actor, note, .next_page
with events as materialized (
  select a.*, o.turn, row_number() over (partition by o.turn, place, at order by event, actor, note) as tie
  from audit_log a
  cross join lateral (select case when event in ('late_result', 'result_refused') then greatest(at, version) else version end as turn) o
  where task_id = $1 and at >= coalesce($2::timestamptz, '-infinity')
    and at < coalesce($3::timestamptz, 'infinity') and ($7::text[] is null or event = any($7))
    and ($8::text is null or worker_id in (select id from workers where name = $8))
    and ($9::text is null or actor = $9 or starts_with(actor, $9 || '/') or starts_with(actor, $9 || '@'))),
behind as (select string_to_array($5::text, ':')::bigint[] as key),
page as materialized (
  select s.* from events s, behind
  where not $6::boolean and ($5 is null or (turn, place, at, tie) > (us_time(key[1]), key[2], us_time(key[3]), key[4]))
  order by turn, place, at, tie limit $4),
next as (
  (select turn, place, at, tie from page order by turn, place, at, tie offset $4 - 1)
  union all
  (select turn, place, at, tie from events where $6 order by turn desc, place desc, at desc, tie desc offset $4 limit 1))
select e.at, e.task_id, e.version, e.event, w.name, e.worker_id, e.attempt, e.actor, left(e.note, 1000), e.next_page
from (
  select *, null::text as next_page from page
  union all
  select null, null, null, null, null, null, null, null, null, null, null, null,
    coalesce((select concat_ws(':', time_us(turn), place, time_us(at), tie) from next), '0:0:0:0')
  where exists (select from next) or $6 and exists (select from events)) e
left join workers w on w.id = e.worker_id
order by e.turn, e.place, e.at, e.tie
