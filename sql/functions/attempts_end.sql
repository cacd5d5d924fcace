-- Ends attempts as the statement end_attempts does, whose parameters and columns it has.
create or replace function attempts_end(bigint[], timestamptz[], text[], text[], text[], boolean, int, text[], text[], bigint[], text[],
  text[]) returns table (id bigint, token timestamptz, becomes text, due timestamptz, version timestamptz, route_id int, priority int,
  batched boolean, attempt smallint) language plpgsql as $$
#variable_conflict use_column
begin
  return query
{statement end_attempts}
  ;
end $$;
