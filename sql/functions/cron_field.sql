-- Parses one field: `wanted` are the values that it allows, `problem` says why it is invalid. `names` stand for the
-- numbers from `lowest` on.
create or replace function cron_field(field text, what text, lowest int, highest int, names text[], out wanted int[], out problem text)
language plpgsql immutable as $$
declare
  part text;
  m text[];
  ends int[];
  value text;
  step int;
  size int := case highest when 7 then 7 else highest - lowest + 1 end; -- 7 is 0 again: Sunday
  takes text := format('it takes %s to %s%s', lowest, highest,
    case when names <> '{}' then format(' or %s to %s', names[1], names[array_length(names, 1)]) end);
begin
  if field ~ '^(\*|[0-9]{1,2})$' then -- the common case
    wanted := array(select generate_series(lowest, highest - (highest = 7)::int));
    if field <> '*' then
      wanted := array(select n from unnest(wanted) n where n = field::int);
    end if;
    if wanted <> '{}' then
      return;
    end if;
  end if;
  wanted := '{}';
  foreach part in array string_to_array(field, ',') loop
    m := regexp_match(lower(part), '^(?:(\*)|([0-9]{1,3}|[a-z]+)(?:-([0-9]{1,3}|[a-z]+))?)(?:/([0-9]{1,3}))?$');
    if m is null then
      problem := format('%s: "%s" is none of *, a number, a range and a list of these, with or without a step; %s', what, part,
        takes);
      return;
    end if;
    ends := '{}';
    foreach value in array array_remove(m[2:3], null) loop
      if value ~ '^[0-9]' then
        ends := ends || value::int;
      else
        ends := ends || array_position(names, value) - 1 + lowest;
      end if;
      if ends[array_length(ends, 1)] is null or ends[array_length(ends, 1)] not between lowest and highest then
        problem := format('%s: there is no %s; %s', what, value, takes);
        return;
      end if;
    end loop;
    if ends[2] = 0 and ends[1] > 0 and highest = 7 then
      ends[2] := 7; -- fri-sun
    end if;
    if ends[1] > ends[2] then
      problem := format('%s: the range %s goes backwards; write it as two, like %s-%s,%s-%s', what, part, m[2], highest, lowest,
        m[3]);
      return;
    end if;
    step := m[4]::int;
    if step is not null and m[1] is null and m[3] is null then
      problem := format('%s: %s has a step and no range; write %s-%s/%s', what, part, m[2], highest, m[4]);
      return;
    elsif step not between 1 and size then
      problem := format('%s: a step of %s; %s, with a step of 1 to %s', what, step, takes, size);
      return;
    end if;
    if m[1] is not null then
      ends := array[lowest, case highest when 7 then 6 else highest end];
    end if;
    wanted := wanted || array(select case when highest = 7 then n % 7 else n end
      from generate_series(ends[1], coalesce(ends[2], ends[1]), coalesce(step, 1)) n);
  end loop;
  wanted := array(select distinct n from unnest(wanted) n order by n);
end $$;
