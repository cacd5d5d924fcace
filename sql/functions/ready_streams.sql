-- Returns which priorities have tasks as the statement ready_streams does, whose parameters it has.
create or replace function ready_streams(int[], int[], int) returns table (route_id int, priority int, run_at timestamptz)
language sql stable as $$
{statement ready_streams}
$$;
