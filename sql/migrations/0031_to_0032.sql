-- Statistics of executions: those that succeeded and those that did not are counted separately, with the duration of the
-- last one. Of hours with both, the time is divided by their numbers.
create table executions_new (
  hour timestamptz not null,
  queue text not null,
  type text not null,
  well boolean not null,
  count bigint not null,
  total_us bigint not null,
  fastest_us bigint not null,
  slowest_us bigint not null,
  last timestamptz not null,
  last_us bigint,
  primary key (hour, queue, type, well));
insert into executions_new
select x.hour, x.queue, x.type, v.well, v.count, (x.total_us::numeric * v.count / x.count)::bigint, x.fastest_us, x.slowest_us, x.last, null
from executions x cross join lateral (values (true, x.succeeded), (false, x.count - x.succeeded)) v(well, count)
where v.count > 0;
drop table executions;
alter table executions_new rename to executions;
alter index executions_new_pkey rename to executions_pkey;
drop function if exists executions_page(text, text, boolean, timestamptz, text, bigint);

-- The number of missed times, which was only in the note.
alter table schedule_runs add column missed bigint;
update schedule_runs set missed = coalesce(substring(note from '^(?:more than )?(\d+) were missed')::bigint, 1) where outcome = 'missed';

drop function if exists audit_page(text, timestamptz, int);
