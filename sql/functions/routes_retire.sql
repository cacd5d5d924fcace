-- Retires the routes without tasks in one page of routes, after the number `after`. Returns how many, and the end of
-- the page; null at the last one. Takes the lock `counts`, so that no counts are added up at the same time: changes
-- that these snapshots do not see are added up after the commit, and bring their route back.
create or replace function routes_retire(after bigint, out gone bigint, out last bigint)
language plpgsql set enable_seqscan = off set jit = off as $$
declare
  most constant int := 5000;
  page int[];
  idle int[];
begin
  perform from locks where name = 'counts' for no key update;
  page := array(select id from routes where id > after and retired is null order by id limit most);
  idle := array(
    select r.id from routes r
    where r.id = any(page) and r.used < clock_timestamp() - interval '1 day'
      and not exists (select from count_changes c where c.route_id = r.id)
      and not exists (select from live_counts c where c.route_id = r.id and (c.live <> 0 or c.retrying <> 0 or c.delayed <> 0))
      and not exists (select from history_counts c where c.route_id = r.id and c.count <> 0));
  idle := array(
    select r.id from routes r
    where r.id = any(idle) and not exists (select from tasks t where t.lane is null and t.route_id = r.id offset 0)
    for no key update skip locked);
  update routes set retired = clock_timestamp() where id = any(idle);
  delete from live_counts where route_id = any(idle);
  gone := cardinality(idle);
  last := case when cardinality(page) = most then page[most] end;
end $$;
