-- Returns the next candidates of streams as the statement ready_page does, whose parameters it has.
create or replace function ready_pages(int[], int[], timestamptz[], bigint[], timestamptz[], int[], int[], int[], bigint[])
returns table (id bigint, last_updated timestamptz, run_at timestamptz, bytes int, slot int) language sql stable as $$
{statement ready_page}
$$;
