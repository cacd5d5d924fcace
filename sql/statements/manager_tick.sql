-- Says that a manager lives; answers the database's time, whether others live too, and the newest route. $1 its id.
with me as (update managers set hb_seq = hb_seq + 1, hb_at = clock_timestamp() where id = $1)
select clock_timestamp(),
  exists (select from managers where id <> $1 and not stopped and hb_at > clock_timestamp() - interval '10 s'),
  (select max(id) from routes)
