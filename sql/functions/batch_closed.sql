-- Returns the message that a batch is closed, since when, and why.
create or replace function batch_closed(b batches) returns text language sql stable as $$
  select format('batch %s was closed at %s%s', b.id, time_text(b.closed_at),
    case when b.entry_status <> 'completed' then format(': its entry task %s ended %s', b.entry_id, b.entry_status)
      when b.implicit then ' when all its tasks had ended' else '' end)
$$;
