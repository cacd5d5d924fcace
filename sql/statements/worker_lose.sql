-- Marks incarnations lost whose heartbeats have stopped: the first of two commits. A heartbeat that came in the
-- meantime has raised the number, and saves its worker; a later one finds it lost. lost_find and end_attempts, which
-- begin after this has been committed, reclaim its tasks: in one statement, a heartbeat that commits in between would
-- be overlooked. $1 ids, $2 the sequence numbers seen, $3 the actor.
-- An incarnation whose row another session has locked is left for the next time.
with gone as (
  update workers w set lost = true, gone_at = clock_timestamp()
  from (
    select u.* from unnest($1::bigint[], $2::bigint[]) u(id, seq)
    cross join lateral (select from workers l where l.id = u.id offset 0 for no key update skip locked) l offset 0) u
  where w.id = any(array[u.id]) and not w.lost and not w.manual and w.hb_seq = u.seq
  returning w.id, w.name, w.hb_seq, w.hb_at),
 events as (
  insert into worker_events (worker_id, event, actor, note)
  select id, 'lost', $3, format('heartbeat %s, at %s, was its last', hb_seq, hb_at) from gone)
select id, name from gone
