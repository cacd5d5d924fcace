-- Returns the next tasks of a partition as JSON, each with its attempts and events: up to 500 tasks, and about `bytes`
-- bytes.
create or replace function history_page(partition text, after bigint, bytes bigint) returns table (id bigint, line text)
language plpgsql as $$
begin
  return query execute format('select p.task_id, (to_jsonb(p) - ''before'' || jsonb_build_object(
      ''attempts'', (select coalesce(jsonb_agg(to_jsonb(a) - ''task_id'' order by a.token), ''[]'')
        from reeve.task_attempts a where a.task_id = p.task_id),
      ''events'', (select coalesce(jsonb_agg(to_jsonb(e) - ''task_id'' order by e.id), ''[]'')
        from reeve.task_events e where e.task_id = p.task_id)))::text
    from (select h.*, sum(length(details) + coalesce(length(result), 0)) over (order by task_id
        rows between unbounded preceding and 1 preceding) as before
      from (select * from reeve.%I where task_id > $1 order by task_id limit 500) h) p
    where before is null or before < $2 order by p.task_id', partition) using after, bytes;
end $$;
