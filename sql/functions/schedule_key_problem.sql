-- Returns what is wrong with a key; null: nothing.
create or replace function schedule_key_problem(key text, schedule text, manual boolean) returns text language sql immutable as $$
  select case
    when substring(key from '\{(?!(?:name|date|time)\})[^{}]*\}') is not null then
      format('has %s; {name}, {date} and {time} are known', substring(key from '\{(?!(?:name|date|time)\})[^{}]*\}'))
    when not manual and key !~ '\{(date|time)\}' then
      format('is "%s", the same for all its tasks: only the first would be made; put {date} or {time} into it', key)
    when octet_length(replace(replace(replace(coalesce(key, '{name}:{time}'), '{date}', '2026-01-14'), '{time}', repeat('0', 27)), '{name}',
      schedule)) > LIMIT_NAME_BYTES then
      'is longer than LIMIT_NAME_BYTES bytes when name and time are put into it; give a shorter key' end
$$;
