-- Returns a task and a batch, of those asked for, that are another identity's; null: there is none. What is an identity's has
-- a source that begins with its name, which has no "/" and "@". Sources never change. A batch that does not exist counts
-- as another identity's: it may be there when the caller changes it.
-- $1 ids of tasks, $2 of batches, $3 the name
with alive as materialized (select id, source from tasks where id = any($1::bigint[]))
select (select id from (
    select id, source from alive
    union all
    select task_id, source from task_history
    where task_id = any(array(select unnest($1::bigint[]) except select id from alive))) t
  where split_part(translate(source, '@', '/'), '/', 1) <> $3::text limit 1) as task,
  (select a.id from unnest($2::bigint[]) a(id) left join batches b on b.id = a.id
  where b.id is null or split_part(translate(b.source, '@', '/'), '/', 1) <> $3::text limit 1) as batch
