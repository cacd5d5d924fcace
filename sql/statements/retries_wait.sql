-- Returns when to ask again if tasks of these queues and types wait for a retry; 0: none does. None of a list means all.
-- Queues that give out no tasks do not count.
-- takes FetchRequest: queues, types
-- gives FetchResponse: retry_after_ms
select case when exists (
  select from tasks t
  where t.route_id = any(array(select r.id from routes r left join queues q on q.name = r.queue
      where ($1::text[] = '{}' or r.queue = any($1)) and ($2::text[] = '{}' or r.type = any($2)) and coalesce(q.state, 'running') = 'running'))
    and t.retrying and t.status = 'failed' and t.cancel_requested_at is null) then 500::bigint else 0 end
