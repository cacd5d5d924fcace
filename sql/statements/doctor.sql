-- Returns problems of the database, its managers and its workers, and how to solve them, the worst first, as far as they
-- fit into an answer. It reads only catalogs, PostgreSQL's statistics and small tables, so it is quick whatever waits.
-- Transactions and lags count from $1 on, in ms. $2 has what this manager expects: `release`, the schema's `version`, the
-- text of `tables`, the hashes of `definitions` by name, `clock_ms`, by how much its clock is ahead of the database's, and
-- `expiring`, its files with certificates that expire soon.
-- takes DoctorRequest: older_ms, @change, @max_bytes
-- gives DoctorResponse.findings: severity, area, subject, problem, advice
with given as materialized (
  select interval '1ms' * $1::bigint as older, j, j ->> 'release' as release, (j ->> 'clock_ms')::bigint as clock_ms
  from (select $2::text::jsonb as j) x),
 me as materialized (
  select current_user::text as role, pg_has_role('pg_read_all_stats', 'usage') as sees_all),
 relations as materialized (
  select c.oid, c.relname::text as name, c.relkind as kind, c.relpersistence as persistence, c.relowner, c.reloptions,
    pg_get_userbyid(c.relowner)::text as owner
  from pg_class c where c.relnamespace = 'reeve'::regnamespace),
 expected as materialized (
  select m[1] as definition, m[2] as index, coalesce(m[3], m[4]) as name
  from given, regexp_matches(j ->> 'tables', '^(create (?:unique )?index (\w+) on (\w+)[^;]*|create table (\w+)[^;]*);', 'gw') m),
 definitions as materialized (
  select e.key as name, split_part(e.key, '/', 1) = 'views' as is_view, split_part(e.key, '/', 2) as object, e.value as hash
  from given, jsonb_each_text(j -> 'definitions') e),
 sessions as materialized (
  select a.*, age(a.backend_xmin) as behind, clock_timestamp() - a.xact_start as open_for
  from pg_stat_activity a where a.datname = current_database() and a.pid <> pg_backend_pid()),
 setting as materialized (select name, setting, reset_val from pg_settings),
 found (severity, area, subject, problem, advice) as (
  -- schema
  select 'critical', 'schema', 'version', format('the schema has version %s, and this manager needs %s', v.version, g.j ->> 'version'),
    'run managers of one release; the newest upgrades the schema when it starts'
  from given g, (select max(version) as version from schema_migrations) v where v.version <> (g.j ->> 'version')::int
  union all
  select 'critical', 'schema', e.name, 'the table is missing', 'restore the database from a backup: Reeve does not create a single table again'
  from expected e where e.index is null and not exists (select from relations r where r.name = e.name)
  union all
  select 'warning', 'schema', e.index, format('this index of %s is missing: statements that need it scan the table', e.name),
    format('set search_path = reeve; %s;', e.definition)
  from expected e where e.index is not null and not exists (select from relations r where r.name = e.index)
  union all
  select 'warning', 'schema', r.name, format('this index of %s is invalid: queries do not use it, and every write maintains it', t.name),
    format('reindex index reeve.%I; or drop it if a failed REINDEX CONCURRENTLY left it', r.name)
  from pg_index i join relations r on r.oid = i.indexrelid join relations t on t.oid = i.indrelid where not i.indisvalid
  union all
  select 'critical', 'schema', d.object, format('the %s is missing', case when d.is_view then 'view' else 'function' end),
    format('delete from reeve.schema_definitions where name = %L; then start a manager, which creates it again', d.name)
  from definitions d
  where case when d.is_view then not exists (select from relations r where r.kind = 'v' and r.name = d.object)
    else not exists (select from pg_proc p where p.pronamespace = 'reeve'::regnamespace and p.proname = d.object) end
  union all
  select 'warning', 'schema', 'definitions', format('%s functions and views are of another release than this manager (%s), %s for example',
      count(*), max(g.release), min(d.object)),
    'run managers of one release, without --no-migrate; the last one that started has set them'
  from given g, definitions d join schema_definitions s on s.name = d.name and s.hash <> d.hash having count(*) > 0
  union all
  select 'critical', 'schema', r.name, 'the table is unlogged: a crash of PostgreSQL empties it', format('alter table reeve.%I set logged', r.name)
  from relations r where r.kind in ('r', 'p') and r.persistence = 'u'
  -- rights
  union all
  select 'critical', 'rights', r.name, format('role "%s" lacks %s', me.role, string_agg(p.name, ', ' order by p.place)),
    format('grant all on all tables in schema reeve to %I', me.role)
  from me, relations r, unnest(array['select', 'insert', 'update', 'delete']) with ordinality p(name, place)
  where r.kind in ('r', 'p') and not has_table_privilege(r.oid, p.name) group by r.name, me.role
  union all
  select 'critical', 'rights', r.name, format('role "%s" may not use this sequence', me.role),
    format('grant all on all sequences in schema reeve to %I', me.role)
  from me, relations r where case when r.kind = 'S' then not has_sequence_privilege(r.oid, 'usage') end
  union all
  select 'critical', 'rights', p.proname::text, format('role "%s" may not execute this function', me.role),
    format('grant execute on all functions in schema reeve to %I', me.role)
  from me, pg_proc p -- but not those that run with their owner's rights: they are for applications
  where p.pronamespace = 'reeve'::regnamespace and not p.prosecdef and not has_function_privilege(p.oid, 'execute')
    and exists (select from definitions d where d.object = p.proname)
  union all
  select 'warning', 'rights', max(r.owner), format('%s tables belong to role "%s", %s for example: role "%s" can neither upgrade them nor create and drop the partitions of the history',
      count(*), r.owner, min(r.name), max(me.role)),
    format('grant %I to %I, or alter their owner', r.owner, max(me.role))
  from me, relations r where r.kind in ('r', 'p') and not pg_has_role(r.relowner, 'usage') group by r.owner
  union all
  select 'note', 'rights', me.role, 'the role cannot see what sessions of other roles do, so how old their transactions are is not known',
    format('grant pg_read_all_stats to %I', me.role)
  from me where not me.sees_all
  -- clock
  union all
  select 'warning', 'clock', 'manager', format('this manager''s clock is %s %s the database''s', date_trunc('second', interval '1ms' * abs(g.clock_ms)),
      case when g.clock_ms > 0 then 'ahead of' else 'behind' end),
    'synchronize the clocks of both hosts (chrony); the database''s clock decides when tasks are due, so check that one first'
  from given g where abs(g.clock_ms) > 2000
  union all
  select 'warning', 'clock', 'database', format('the database''s clock was set back: it showed %s before', max(m.clock_ahead_until)),
    'nothing, if the clock is right now: managers estimate the time until the clock shows that time again'
  from managers m where m.clock_ahead_until > clock_timestamp() having count(*) > 0
  -- certificates
  union all
  select case when (e ->> 'left_s')::bigint > 0 then 'warning' else 'critical' end, 'certificates', e ->> 'path', e ->> 'problem',
    'replace the file (reeve certs renew): this manager then reads it again by itself'
  from given g, jsonb_array_elements(g.j -> 'expiring') e
  -- identities: the same time before they expire as for certificates
  union all
  select case when i.expires > clock_timestamp() then 'warning' else 'critical' end, 'rights', i.name,
    case when i.expires > clock_timestamp() then format('this identity expires in %s', date_trunc('second', i.expires - clock_timestamp()))
      else format('this identity expired %s ago', date_trunc('second', clock_timestamp() - i.expires)) end,
    format(case when i.hash is not null then 'reeve token rotate %1$s, and replace the files with its token; or, if nobody uses it: reeve token revoke %1$s'
      else 'reeve token revoke %s, and create it again' end, i.name)
  from identities i
  where i.revoked is null and isfinite(i.expires) and i.expires between clock_timestamp() - interval '7 days'
    and clock_timestamp() + least(interval '7 days', interval '1ms' * i.valid_ms / 5)
  -- settings of PostgreSQL
  union all
  select s.severity, 'settings', s.name, format('%s is %s: %s', s.name, x.reset_val, s.problem), s.advice
  from (values
      ('critical', 'fsync', 'off', 'a crash of the host can lose acknowledged tasks and destroy the database', 'set fsync = on and reload PostgreSQL'),
      ('critical', 'full_page_writes', 'off', 'a crash of the host can destroy pages of the database', 'set full_page_writes = on, unless the file system writes pages atomically'),
      ('critical', 'synchronous_commit', 'off', 'a crash of PostgreSQL can lose acknowledged tasks', 'set synchronous_commit = on for the managers'' role'),
      ('critical', 'autovacuum', 'off', 'dead rows stay, and transaction ids run out', 'set autovacuum = on'),
      ('critical', 'track_counts', 'off', 'autovacuum does not run', 'set track_counts = on'),
      ('critical', 'default_transaction_read_only', 'on', 'managers cannot write', 'set it to off for the managers'' role'),
      ('note', 'idle_in_transaction_session_timeout', '0', 'forgotten transactions of other programs stay open', 'set it to 10min, for example'))
    s(severity, name, value, problem, advice)
  join setting x on x.name = s.name and x.reset_val = s.value
  union all
  select 'critical', 'settings', 'server', 'it is a standby, which cannot be written', 'connect managers to the primary'
  where pg_is_in_recovery()
  union all
  select 'warning', 'settings', 'max_connections', format('%s of %s connections are in use: managers may not be able to connect again', u.used, u.most),
    'raise max_connections, or find the programs with many connections in pg_stat_activity'
  from (select (select count(*) from pg_stat_activity where backend_type = 'client backend') as used,
      (select sum(setting::int * case name when 'max_connections' then 1 else -1 end) from setting
        where name in ('max_connections', 'superuser_reserved_connections')) as most) u
  where u.used > u.most - 5
  union all
  select 'warning', 'settings', r.name, 'autovacuum is disabled for this table: its dead rows stay', format('alter table reeve.%I reset (autovacuum_enabled)', r.name)
  from relations r where r.reloptions && array['autovacuum_enabled=false', 'autovacuum_enabled=off', 'autovacuum_enabled=0', 'autovacuum_enabled=no']
  -- bloat
  union all
  select 'warning', 'bloat', t.relname::text, format('%s dead rows next to %s live ones; last vacuum: %s', t.n_dead_tup, t.n_live_tup,
      coalesce(greatest(t.last_vacuum, t.last_autovacuum)::text, 'never')),
    format('end what holds old snapshots, if that is reported, then vacuum reeve.%I', t.relname)
  from given g, pg_stat_user_tables t
  where t.schemaname = 'reeve' and t.n_dead_tup > 100000 and t.n_dead_tup > t.n_live_tup
    and coalesce(greatest(t.last_vacuum, t.last_autovacuum), '-infinity') < clock_timestamp() - g.older
  -- old snapshots
  union all
  select 'warning', 'snapshots', format('pid %s', s.pid), format('a transaction of role "%s"%s has been open for %s%s: dead rows younger than it stay', s.usename,
      case when s.application_name <> '' then format(' (%s)', s.application_name) else '' end, date_trunc('second', s.open_for),
      case when s.state like 'idle in%' then ', and is idle' else '' end),
    format('end it in its program, or select pg_terminate_backend(%s)', s.pid)
  from given g, sessions s where s.open_for > g.older
  union all
  select 'warning', 'snapshots', format('pid %s', s.pid), format('a transaction of role "%s" has a snapshot that is %s transactions old: dead rows younger than it stay', s.usename, s.behind),
    format('end it in its program, or select pg_terminate_backend(%s)', s.pid)
  from sessions s where s.xact_start is null and s.behind > 100000
  union all
  select 'warning', 'snapshots', p.gid, format('a transaction of role "%s" was prepared at %s and neither committed nor rolled back', p.owner, p.prepared),
    format('rollback prepared %L, or commit prepared %L', p.gid, p.gid)
  from given g, pg_prepared_xacts p where p.database = current_database() and p.prepared < clock_timestamp() - g.older
  union all
  select 'warning', 'snapshots', s.slot_name::text, format('replication slot without a consumer: it keeps %s of WAL%s',
      pg_size_pretty(case when not pg_is_in_recovery() then pg_wal_lsn_diff(pg_current_wal_lsn(), s.restart_lsn) else 0 end),
      case when s.xmin is not null or s.catalog_xmin is not null then ', and dead rows' else '' end),
    format('connect its consumer, or select pg_drop_replication_slot(%L)', s.slot_name)
  from pg_replication_slots s where not s.active and (s.restart_lsn is not null or s.xmin is not null)
  -- replication
  union all
  select 'critical', 'replication', 'synchronous_standby_names', format('commits wait for a synchronous standby (%s), and none is connected', x.setting),
    'start the standby, or clear synchronous_standby_names and reload PostgreSQL'
  from setting x, me
  where x.name = 'synchronous_standby_names' and x.setting <> '' and current_setting('synchronous_commit') not in ('off', 'local')
    and not exists (select from pg_stat_replication r where r.sync_state in ('sync', 'quorum') or not me.sees_all)
  union all
  select 'warning', 'replication', coalesce(nullif(r.application_name, ''), format('pid %s', r.pid)), format('the standby is %s of WAL behind, and %s', pg_size_pretty(l.bytes), coalesce(date_trunc('second', l.lag)::text, 'an unknown time')),
    'check its network, its disks and its long queries'
  from given g, pg_stat_replication r, lateral (
    select greatest(r.write_lag, r.flush_lag, r.replay_lag) as lag,
      case when not pg_is_in_recovery() then pg_wal_lsn_diff(pg_current_wal_lsn(), r.replay_lsn) end as bytes) l
  where l.lag > g.older or l.bytes > 67108864
  -- managers and workers
  union all
  select 'warning', 'managers', m.name, format('it has sent no heartbeat since %s', date_trunc('second', m.hb_at)),
    'start it again; if it is gone for good, managers forget it after a day'
  from managers m where not m.stopped and m.hb_at < clock_timestamp() - interval '10 s'
  union all
  select 'warning', 'versions', 'manager ' || m.name, format('it is of release %s, this manager of %s', coalesce(m.version, 'unknown'), g.release), 'run managers of one release'
  from given g, managers m where not m.stopped and m.hb_at > clock_timestamp() - interval '1 minute' and m.version is distinct from g.release
  union all
  select 'warning', 'versions', 'worker ' || w.name, format('it is of release %s, this manager of %s', coalesce(nullif(w.version, ''), 'unknown'), g.release), 'upgrade the worker'
  from given g, workers w where w.gone_at is null and w.registered is not null and not w.manual and w.version <> g.release
  union all
  select 'warning', 'workers', w.name, format('it was lost at %s: its host, its process or its network stopped', date_trunc('second', w.gone_at)),
    'start it again, and read its log'
  from workers w
  where w.lost and not w.manual and w.gone_at > clock_timestamp() - interval '1 hour'
    and exists (select from worker_events e where e.worker_id = w.id and e.event = 'lost')
    and not exists (select from workers o where o.name = w.name and o.gone_at is null)
  union all
  select 'warning', 'workers', format('%s in queue %s', u.type, u.queue),
    case u.tasks when 1 then '1 task waits, and no worker takes it' else format('%s tasks wait, and no worker takes them', u.tasks) end,
    format('start a worker with a handler for "%s" that serves queue "%s"', u.type, u.queue)
  from unserved(null, null) u
  -- maintenance
  union all
  select 'warning', 'maintenance', 'statistics', format('managers have not counted executions since %s', date_trunc('second', r.settled)),
    'see that a manager runs and read its log; an old transaction, if one is reported, also holds this up'
  from executions_rolled r where r.settled < clock_timestamp() - interval '30 minutes'
    and (select min(applied) from schema_migrations) < clock_timestamp() - interval '30 minutes'
  union all
  select 'warning', 'maintenance', 'task_history', 'there is no partition for tomorrow''s tasks: managers could not create it',
    'see that the managers'' role owns the tables, and read their logs'
  where not exists (select from relations r
    where r.name = 'task_history_' || to_char((clock_timestamp() at time zone 'UTC')::date + 2 + history_keep(1), 'YYYYMMDD'))
  union all
  select 'warning', 'maintenance', 'task_history_default', format('%s tasks are in the default partition: there was no partition for their day', count(*)),
    'see that the managers'' role owns the tables; managers move the tasks once they can create partitions'
  from (select from task_history_default limit 1000) d having count(*) > 0
  union all
  select 'warning', 'maintenance', 'count_changes', 'over 100,000 changes of counts are not added up: listings and totals get slow',
    'see that a manager runs and read its log; find who locks rows of reeve.locks'
  from (select from count_changes limit 100001) c having count(*) > 100000)
select severity, area, subject, problem, advice from (
  select *, row_number() over w as place, sum(100 + octet_length(subject) + octet_length(problem) + octet_length(advice)) over w as bytes
  from found window w as (order by array_position(array['critical', 'warning', 'note'], severity), area, subject, problem
    rows unbounded preceding)) f
where place = 1 or bytes <= $3::bigint
order by place
