-- Returns whether an error is temporary: a row that another session has locked, a queue that is being stopped, a full
-- disk.
create or replace function schedule_passes(code text) returns boolean language sql immutable as $$
  select code in ('RV503', '40001', '40P01', '55P03') or code ~ '^(53|58)'
$$;
