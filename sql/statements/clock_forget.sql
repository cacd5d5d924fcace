-- Forgets how far ahead the clock was before it was set back, when nothing that lives was written then. (The look at all tasks is
-- taken only while the clock shows less than some manager has seen.)
update managers set clock_ahead_until = null, hb_at = least(hb_at, clock_timestamp())
where greatest(clock_ahead_until, hb_at) > clock_timestamp() + interval '1 s'
  and not exists (select from tasks where last_updated > clock_timestamp() + interval '1 s')
  and not exists (select from callbacks where state = 'waiting' and planned_at > clock_timestamp() + interval '1 s')
