-- Returns a task and a batch, of those asked for, that are another identity's; null: there is none. What is an identity's has
-- a source that begins with its name, which has no "/" and "@". Sources never change.
-- $1 ids of tasks, $2 of batches, $3 the name
with alive as materialized (select id, source from tasks where id = any($1::bigint[]))
select (select id from (
    select id, source from alive
    union all
    select task_id, source from task_history
    where task_id = any(array(select unnest($1::bigint[]) except select id from alive))) t
  where split_part(translate(source, '@', '/'), '/', 1) <> $3::text limit 1) as task,
  (select id from batches
  where id = any($2::bigint[]) and split_part(translate(source, '@', '/'), '/', 1) <> $3::text limit 1) as batch
