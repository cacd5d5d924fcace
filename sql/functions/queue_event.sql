-- Records a change of a queue in the audit, and notifies the managers.
create or replace function queue_event(of_queue text, what text, by text, more text default '') returns void language plpgsql as $$
begin
  insert into queue_events (queue, event, actor, note) values (of_queue, what, by, more);
  perform pg_notify('reeve_notify', 'queues');
end $$;
