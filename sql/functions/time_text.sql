-- Formats a time as in the contract's JSON, and in messages and notes: in UTC, whatever the session's time zone is.
create or replace function time_text(at timestamptz) returns text language sql stable parallel safe as $$
  select to_char(at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')
$$;
