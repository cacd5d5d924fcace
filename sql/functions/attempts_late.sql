-- Checks reports that matched no lock as the statement late_results does, whose parameters and first columns it has.
create or replace function attempts_late(bigint[], timestamptz[], text[], bigint[], bigint[], text[])
returns table (n bigint, reported boolean, known boolean) language plpgsql as $$
#variable_conflict use_column
declare
  this_row record;
begin
  for this_row in
{statement late_results}
  loop
    n := this_row.n;
    reported := this_row.reported;
    known := this_row.known;
    return next;
  end loop;
end $$;
