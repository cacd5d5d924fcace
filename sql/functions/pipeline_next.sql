-- Returns what follows when a task of a pipeline has completed a stage; `chosen` is the stage that its handler named,
-- if it did. `next`: the stage that begins; null: none. `error` and `code`: the task ends dead.
create or replace function pipeline_next(of_pipeline bigint, from_stage text, of_step int, chosen text, out next jsonb, out error text,
  out code text) language plpgsql stable as $$
declare
  p pipelines;
  wanted text;
begin
  select * into p from pipelines where id = of_pipeline;
  if not found then
    error := format('stage "%s" was named, and the task is of no pipeline', left(chosen, LIMIT_NAME_BYTES));
    code := 'unknown_stage';
    return;
  end if;
  if chosen = 'end' then
    return;
  end if;
  wanted := coalesce(chosen, (select s ->> 'next' from jsonb_array_elements(p.stages) s where s ->> 'name' = from_stage));
  if wanted is null then
    return;
  end if;
  select s into next from jsonb_array_elements(p.stages) s where s ->> 'name' = wanted;
  if next is null then
    error := format('stage "%s" was named; pipeline "%s" has %s', left(wanted, LIMIT_NAME_BYTES), p.name,
      (select string_agg(format('"%s"', s ->> 'name'), ', ' order by n)
       from jsonb_array_elements(p.stages) with ordinality u(s, n)));
    code := 'unknown_stage';
  elsif of_step >= p.max_steps then
    error := format('stage "%s" would be the %s. that is begun; pipeline "%s" allows %s', wanted, of_step + 1, p.name, p.max_steps);
    code := 'too_many_steps';
    next := null;
  end if;
end $$;
