-- Closes a batch: it accepts no more tasks.
create or replace function batch_close(request uuid, of_batch bigint) returns void language plpgsql as $$
declare
  before bigint := batch_request(request, 'batch_close', of_batch);
  b batches;
begin
  if before = of_batch then
    return;
  elsif before is not null then
    raise exception using errcode = 'RV400', message = 'the request id was used for another call';
  end if;
  select * into b from batches where id = of_batch for no key update;
  if not found then
    raise exception using errcode = 'RV404', message = format('there is no batch %s', of_batch);
  elsif b.closed_at is not null then
    raise exception using errcode = 'RV409', message = batch_closed(b);
  end if;
  update batches set closed_at = clock_timestamp() where id = of_batch;
end $$;
