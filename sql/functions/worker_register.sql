-- Adds incarnations as the statement register does, whose parameters it has. Returns their ids.
create or replace function worker_register(text[], text[], int[], text[], int[], int[], int[], bigint[], boolean[], text[], text[], bigint, bigint[],
  text[])
returns setof bigint language plpgsql as $$
#variable_conflict use_column
declare
  this_row record;
begin
  for this_row in
{statement register}
  loop
    return next this_row.id;
  end loop;
end $$;
