-- Returns the message that a batch is closed, since when, and why.
create or replace function batch_closed(b batches) returns text language sql stable as $$
  select format('batch %s was closed at %s%s', b.id, to_char(b.closed_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'),
    case when b.entry_status <> 'completed' then format(': its entry task %s ended %s', b.entry_id, b.entry_status)
      when b.implicit then ' when all its tasks had ended' else '' end)
$$;
