-- The longest details that every manager takes. One that has been silent for a minute is not there any more.
create or replace function details_most() returns bigint language sql stable as $$
  select coalesce(
    (select min(max_details) from managers where not stopped and hb_at > clock_timestamp() - interval '1 minute'),
    (select max_details from managers order by hb_at desc limit 1), 1048576)
$$;
