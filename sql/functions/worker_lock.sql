-- Returns the name of the lock under which a worker with this name registers.
create or replace function worker_lock(worker text) returns text language sql immutable parallel safe as $$
  select 'worker ' || (hashtext(worker) & 63)
$$;
