-- Dead tasks, with the name of their last worker.
create or replace view dead_tasks as
  select h.task_id as id, h.queue, h.type, h.error_code, h.last_error as error, h.recoverable, h.attempt, h.max_attempts,
    h.last_updated as died, w.name as worker, h.key, h.batch_id, h.source, h.created, h.first_started, h.remark, h.details
  from task_history h left join workers w on w.id = h.worker_id
  where h.status = 'dead';
