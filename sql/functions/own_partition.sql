-- Gives a new partition to the owner of task_history: a member of that role may have created it. Otherwise the owner
-- could neither dump nor change it.
create or replace function own_partition(name text) returns void language plpgsql set search_path = reeve, pg_temp as $$
declare
  owner constant text := (select relowner::regrole from pg_class where oid = 'reeve.task_history'::regclass);
begin
  if owner <> quote_ident(current_user) then
    execute format('alter table reeve.%I owner to %s', name, owner);
  end if;
exception when insufficient_privilege then
  null; -- it may only use what that role has
end $$;
