-- Returns the next tasks of a partition as JSON, each with its attempts and events: up to 500 tasks, and about `bytes`
-- bytes. (The attempts of one task may be longer than a jsonb can be: 256 MiB.)
create or replace function history_page(partition text, after bigint, bytes bigint) returns table (id bigint, line text)
language plpgsql as $$
begin
  return query execute format('select p.task_id, left((to_jsonb(p) - array[''own'', ''before''])::text, -1) || '', "attempts": ['' || coalesce((
      select string_agg((to_jsonb(a) - ''task_id'')::text, '', '' order by a.token)
      from reeve.task_attempts a where a.task_id = p.task_id), '''') || ''], "events": ['' || coalesce((
      select string_agg((to_jsonb(e) - ''task_id'')::text, '', '' order by e.id)
      from reeve.task_events e where e.task_id = p.task_id), '''') || '']}''
    from (select h.*, sum(own) over (order by task_id rows between unbounded preceding and 1 preceding) as before
      from (select *, octet_length(details) + coalesce(octet_length(result), 0) + (
          select coalesce(sum(coalesce(octet_length(a.details), 0) + coalesce(octet_length(a.result), 0)), 0)
          from reeve.task_attempts a where a.task_id = t.task_id) as own
        from reeve.%I t where task_id > $1 order by task_id limit 500) h) p
    where before is null or before < $2 order by p.task_id', partition) using after, bytes;
end $$;
