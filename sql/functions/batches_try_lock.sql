-- Locks the rows of batches in id order, and returns which of them another transaction has locked. It waits for a row up
-- to the lock timeout, but not for those in `known` (null: for none), and not after it has waited once in vain. `waited`
-- is true if one transaction had the row all that time: then a longer wait is in vain, too.
create or replace function batches_try_lock(ids bigint[], known bigint[])
returns table (batch_id bigint, waited boolean, locked boolean)
language plpgsql as $$
declare
  may_wait boolean := known is not null;
  holder xid;
begin
  for batch_id in select distinct i from unnest(ids) i order by 1 loop
    perform from batches b where b.id = batches_try_lock.batch_id for no key update skip locked;
    locked := not found and exists (select from batches b where b.id = batches_try_lock.batch_id);
    waited := false;
    if locked and may_wait and batch_id <> all(known) then
      holder := (select xmax from batches b where b.id = batches_try_lock.batch_id);
      begin
        perform from batches b where b.id = batches_try_lock.batch_id for no key update;
        locked := false;
      exception when lock_not_available then
        waited := coalesce(holder = (select xmax from batches b where b.id = batches_try_lock.batch_id), false);
        may_wait := false;
      end;
    end if;
    return next;
  end loop;
end $$;
