-- Stores what the handlers of running attempts have reported, each under its attempt's token. Tasks that another session
-- has locked are left out, and attempts whose last write was less than $12 ms ago. Of a task, at least the last $13 lines
-- or $14 bytes of lines are kept, and the progress of the last hundred attempts. A remark is neither indexed nor part of
-- the lock.
--   one element per attempt: $1 ids, $2 tokens, $3 hundredths of percent (-1: unchanged), $4 remarks ("": unchanged),
--   $5 their workers' numbers of their first lines (0: none: all are new), $6 how many lines they have, $7 the identities
--   whose workers must have them, $8 whether that counts;
--   one element per line: $9 texts, $10 ages in ms, $11 bytes
-- Returns places in $1, without those that do not hold their task, and whether they were left out.
with given as materialized (
  select u.*, (sum(u.count) over (order by place) - u.count)::int as skip, row_number() over (partition by id, token order by place) as copy
  from unnest($1::bigint[], $2::timestamptz[], $3::int[], $4::text[], $5::bigint[], $6::int[], $7::bigint[], $8::boolean[])
    with ordinality u(id, token, progress, remark, first, count, identity, limited, place)),
 holding as materialized (
  select g.*
  from given g
  cross join lateral (
    select worker_id from tasks t where t.id = g.id and t.last_updated = g.token and t.status = 'executing' offset 0) t
  where not g.limited or exists (select from workers w where w.id = t.worker_id and w.identity = g.identity)),
 free as materialized (
  select h.*, t.attempt, t.remark as last_remark
  from holding h
  cross join lateral (
    select attempt, remark from tasks t where t.id = h.id and t.last_updated = h.token and t.status = 'executing'
    offset 0 for no key update skip locked) t
  where h.copy = 1),
 news as materialized (
  select f.*, greatest(n.starts - n.sent - 1, 0) as dropped, n.old, f.count - n.old as fresh, n.sent, n.early,
    coalesce((select sum(b) from unnest(($11::int[])[f.skip + n.old + 1 : f.skip + f.count]) b), 0)::int as bytes,
    coalesce((select last from task_logs l where l.task_id = f.id order by first desc limit 1), 0) as top,
    n.early or f.count = n.old and f.progress in (-1, n.progress) and f.remark in ('', coalesce(f.last_remark, '')) as idle
  from free f
  cross join lateral (select coalesce(max(p.sent), 0) as sent, coalesce(max(p.progress), -0.01) as progress,
      coalesce($12::int > 0 and max(p.at) > clock_timestamp() - interval '1ms' * $12, false) as early
    from task_progress p where p.task_id = f.id and p.token = f.token) p
  cross join lateral (select p.sent, p.early, round(p.progress * 100) as progress, case when f.first = 0 then p.sent + 1 else f.first end as starts) x
  cross join lateral (select x.*, least(greatest(x.sent + 1 - x.starts, 0), f.count)::int as old) n),
 noted as (
  insert into task_progress as p (task_id, token, at, progress, sent)
  select id, token, clock_timestamp(), nullif(progress, -1) / 100.0, sent + case when first > 0 and fresh > 0 then dropped + fresh else 0 end
  from news where not idle
  on conflict (task_id, token) do update set at = excluded.at, sent = excluded.sent,
    progress = coalesce(excluded.progress, p.progress)),
 logged as (
  insert into task_logs (task_id, first, last, attempt, at, bytes, lines, ages_ms)
  select id, top + dropped + 1, top + dropped + fresh, attempt, clock_timestamp(), bytes,
    ($9::text[])[skip + old + 1 : skip + count], ($10::bigint[])[skip + old + 1 : skip + count]
  from news where not idle and fresh > 0),
 remarked as (
  update tasks t set remark = n.remark from news n
  where not n.idle and n.remark <> '' and n.remark is distinct from n.last_remark and t.id = any(array[n.id]) and t.last_updated = n.token),
 dropped as (
  delete from task_logs l using (
    select l.task_id, l.first, n.top + n.dropped + n.fresh - l.last as later_lines,
      n.bytes + sum(l.bytes) over (partition by l.task_id order by l.first desc) - l.bytes as later_bytes
    from news n join task_logs l on l.task_id = n.id where not n.idle and n.fresh > 0) o
  where l.task_id = o.task_id and l.first = o.first and (o.later_lines >= $13::int or o.later_bytes >= $14::int)),
 forgotten as (
  delete from task_progress p using (
    select n.id, (select token from task_progress p where p.task_id = n.id order by token desc offset 99 limit 1) as since
    from news n where not n.idle offset 0) o
  where p.task_id = any(array[o.id]) and p.token < o.since)
select h.place, coalesce(n.early, true) as later from holding h left join news n on n.place = h.place order by h.place
