-- Notifies the opener of a batch of its begin or end, by HTTP, a callback task, or both.
create or replace function batch_notify(b batches, of_event text) returns void language plpgsql as $$
begin
  if b.callback_url is not null then
    insert into callbacks (batch_id, event, url, secret) values (b.id, of_event, b.callback_url, b.callback_secret);
  end if;
  if b.callback_type is not null then
    perform submit_internal(b.queue, b.callback_type, batch_report(b.id, of_event), null,
      'callback of batch ' || b.id);
  end if;
end $$;
