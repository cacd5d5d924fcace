-- Records a change of an identity in the audit, and notifies the managers.
create or replace function token_event(of_name text, what text, by text, more text default '') returns void language plpgsql as $$
begin
  insert into identity_events (identity, event, actor, note) values (of_name, what, by, more);
  perform pg_notify('reeve_notify', 'identities');
end $$;
