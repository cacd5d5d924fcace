-- Creates a partition of task_history without attaching it. It belongs to the owner of task_history, also if a member of
-- that role creates it. Otherwise the owner could neither dump nor change it.
create or replace function create_history_partition(name text) returns void language plpgsql set search_path = reeve, pg_temp as $$
declare
  owner constant text := (select relowner::regrole from pg_class where oid = 'reeve.task_history'::regclass);
begin
  execute format('create table reeve.%I (like reeve.task_history including all)', name);
  if owner <> quote_ident(current_user) then
    begin
      execute format('alter table reeve.%I owner to %s', name, owner);
    exception when insufficient_privilege then
      null; -- the member may use the owner's rights, but not give it tables
    end;
  end if;
end $$;
