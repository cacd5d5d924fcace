-- Returns the maximum length of details that every manager accepts, in bytes. A manager without a heartbeat for a
-- minute does not count; if none is left, the latest one counts.
create or replace function max_details() returns bigint language sql stable as $$
  select coalesce(
    (select min(max_details) from managers where not stopped and hb_at > clock_timestamp() - interval '1 minute'),
    (select max_details from managers order by hb_at desc limit 1), 1048576)
$$;
