-- Claims tasks as the statement claim does, whose parameters it has. Returns the ids of those that it won.
create or replace function tasks_claim(bigint[], timestamptz[], int[], bigint[], bigint[], bigint) returns setof bigint language plpgsql as $$
#variable_conflict use_column
declare
  this_row record;
begin
  for this_row in
{statement claim}
  loop
    return next this_row.id;
  end loop;
end $$;
