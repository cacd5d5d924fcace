-- Formats a scheduled time for keys: in UTC, with fractions of a second only if there are any.
create or replace function schedule_time_text(at timestamptz) returns text language sql stable as $$
  select to_char(at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS')
    || rtrim(rtrim(to_char(at at time zone 'UTC', '.US'), '0'), '.') || 'Z'
$$;
