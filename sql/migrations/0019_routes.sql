-- A route retires when it has no task, live or in the history, and was made or brought back more than a day ago: managers forget it. Its row stays, so that a number means
-- its names for ever. No lock and no count tells that nobody has the number any more: a manager that was frozen, or an application's
-- transaction, may make a task of it later, and the task may even end before its counts are added up. So nothing is decided here that
-- such a task would come too late for: its counts, which are committed with it, bring the route back whenever they are added up.
alter table routes
  add column retired timestamptz,          -- null: managers know it
  add column used timestamptz not null default statement_timestamp(); -- when it was made, or brought back
create index routes_in_use on routes (id) where retired is null and labels = '{}';

-- Brings back those of these routes that are retired.
create function routes_return(ids int[]) returns void language sql as $$
  update routes set retired = null, used = clock_timestamp()
  where id = any(array(select id from routes where id = any(ids) and retired is not null order by queue, type for no key update))
$$;

-- Retires those of a page of routes, from a number on, that have no tasks. Returns how many, and the page's end, null at the last one.
-- Counts are not added up meanwhile: what is not in these snapshots is added up after the commit, and brings its route back.
create function routes_retire(after bigint, out gone bigint, out last bigint)
language plpgsql set enable_seqscan = off set jit = off as $$
declare
  most constant int := 5000;
  page int[];
  idle int[];
begin
  perform from locks where name = 'counts' for no key update;
  page := array(select id from routes where id > after and retired is null and labels = '{}' order by id limit most);
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

-- The rest of these functions is as before. Who counts anew leaves no changes to be added up.
do $$ begin
  perform replace_in_function('counts_fold', '  routes int[];', E'  routes int[];\n  used int[];');
  perform replace_in_function('counts_fold', 'array_agg(route_id) into changes, dues, routes from later where count = 0;',
    E'array_agg(route_id),\n    (select array_agg(distinct route_id) from taken where live > 0 or count > 0)\n'
    '  into changes, dues, routes, used from later where count = 0;\n  perform routes_return(used);');
  perform replace_in_function('live_recount', 'from live l group by 1;', E'from live l group by 1;\n  perform routes_return(array(\n'
    '    select route_id from live_counts where live <> 0 union select route_id from history_counts where count <> 0));');
  perform replace_in_function('queue_counts', 'where (of_queue is null',
    E'where r.retired is null and r.labels = \'{}\' and (of_queue is null');
end $$;
drop function replace_in_function(regproc, text, text);
