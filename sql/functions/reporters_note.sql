-- Notes who reports attempts that a worker of another caller runs, as admins may, and roles that report by SQL. The audit has it
-- between the claim and the end.
create or replace function reporters_note(ids bigint[], tokens timestamptz[], actors text[], outcomes text[]) returns void
language sql as $$
  insert into task_events (task_id, version, event, actor, worker_id, note)
  select u.id, u.token, 'reported', u.actor, t.worker_id, u.outcome
  from unnest(ids, tokens, actors, outcomes) u(id, token, actor, outcome)
  cross join lateral (
    select t.worker_id from tasks t where t.id = u.id and t.last_updated = u.token and t.status = 'executing' offset 0) t
  cross join lateral (select w.actor from workers w where w.id = t.worker_id offset 0) w
  where u.actor <> w.actor and u.actor <> ''
    and not exists (
      select from task_events e where e.task_id = u.id and e.version = u.token and e.event = 'reported' and e.actor = u.actor)
$$;
