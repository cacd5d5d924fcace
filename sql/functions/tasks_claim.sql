-- Claims tasks as the statement claim_limited does, whose parameters it has. Returns the ids of those that it won.
create or replace function tasks_claim(bigint[], timestamptz[], int[], bigint[], bigint[], bigint, boolean) returns setof bigint
language plpgsql as $$
#variable_conflict use_column
declare
  this_row record;
begin
  for this_row in
{statement claim_limited}
  loop
    if this_row.kind = 0 then
      return next this_row.id;
    end if;
  end loop;
end $$;
