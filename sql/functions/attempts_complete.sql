-- Ends attempts that completed as the statement complete_all does, whose parameters it has. Returns the ids of those that it ended.
create or replace function attempts_complete(bigint[], timestamptz[], text[], int, text[]) returns setof bigint language plpgsql as $$
#variable_conflict use_column
declare
  this_row record;
begin
  for this_row in
{statement complete_all}
  loop
    return next this_row.id;
  end loop;
end $$;
