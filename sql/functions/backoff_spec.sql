-- Converts a backoff as the commands accept it, such as "exp:1s:1h", and a jitter in percent or null, to parts of a task's
-- spec (see submit_task). Raises 22023 if it is invalid.
create or replace function backoff_spec(given text, jitter int) returns jsonb language plpgsql immutable as $$
declare
  parts text[] := string_to_array(given, ':');
  kind text := parts[1];
  longest constant bigint := LIMIT_RETRY_DAYS * 86400000::bigint;
  delays text[];
  first bigint;
  second bigint;
  bad text;
  spec jsonb;
begin
  delays := case when kind = 'list' then string_to_array(parts[2], ',') else array[parts[2]] end;
  if kind is null or kind not in ('fixed', 'linear', 'exp', 'poly', 'list') or cardinality(parts) < 2
    or cardinality(parts) > (case when kind in ('fixed', 'list') then 2 else 3 end) then
    bad := 'it is invalid';
  elsif exists (select from unnest(delays) d where duration_ms(d) is null or duration_ms(d) > longest)
    or cardinality(parts) = 3 and kind <> 'poly' and (duration_ms(parts[3]) is null or duration_ms(parts[3]) > longest) then
    bad := 'a delay is not a duration like 250ms, 5s, 1m30s or 2h of at most LIMIT_RETRY_DAYS days';
  elsif cardinality(delays) > LIMIT_RETRY_DELAYS or cardinality(delays) = 0 then
    bad := 'a list has from 1 to LIMIT_RETRY_DELAYS delays';
  elsif kind = 'poly' and parts[3] is not null
    and not (case when parts[3] ~ '^[0-9]{1,3}([.][0-9]{1,9})?$' then parts[3]::numeric between 0.000000001 and LIMIT_RETRY_EXPONENT else false end) then
    bad := 'the exponent is not a number above 0, at most LIMIT_RETRY_EXPONENT';
  else
    first := case when kind <> 'list' then duration_ms(parts[2]) end;
    second := case when kind <> 'poly' then duration_ms(parts[3]) end;
    if kind in ('fixed', 'exp', 'poly') and first = 0 or kind = 'exp' and second = 0 then
      bad := 'it has a delay of 0; the shortest is 1ms';
    end if;
  end if;
  if bad is not null then
    raise exception using errcode = '22023', message = format('backoff is "%s": %s; it takes fixed:D, linear:STEP[:BASE], '
      'exp:BASE[:CAP], poly:BASE[:EXPONENT] or list:D,D,…', left(given, 64), bad);
  end if;
  spec := case kind
    when 'fixed' then jsonb_build_object('retry_base_ms', first, 'retry_max_ms', longest, 'retry_policy', jsonb_build_object('kind', 'fixed'))
    when 'linear' then jsonb_build_object('retry_base_ms', coalesce(second, 0), 'retry_max_ms', DEFAULT_RETRY_MAX_MS,
      'retry_policy', jsonb_build_object('kind', 'linear', 'step_ms', first))
    when 'exp' then jsonb_build_object('retry_base_ms', first, 'retry_max_ms', coalesce(second, DEFAULT_RETRY_MAX_MS), 'retry_policy', null)
    when 'poly' then jsonb_build_object('retry_base_ms', first, 'retry_max_ms', DEFAULT_RETRY_MAX_MS,
      'retry_policy', jsonb_build_object('kind', 'polynomial', 'exponent', coalesce(parts[3]::float8, DEFAULT_RETRY_EXPONENT)))
    else jsonb_build_object('retry_base_ms', 0, 'retry_max_ms', longest, 'retry_policy', jsonb_build_object('kind', 'list',
      'delays_ms', (select jsonb_agg(duration_ms(d) order by n) from unnest(delays) with ordinality u(d, n)))) end;
  if jitter is not null then
    spec := spec || jsonb_build_object('retry_policy', coalesce(nullif(spec -> 'retry_policy', 'null'), '{"kind": "exponential"}')
      || jsonb_build_object('jitter_percent', jitter));
  end if;
  return spec;
end $$;
