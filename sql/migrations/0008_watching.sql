-- What checks look at (reeve check) without walking all that waits and all that has ended.

-- Tasks that an attempt has ended of: those that wait to be tried again are among them, the many that wait for their first
-- are not. It names no column that a claim changes.
create index tasks_tried on tasks (route_id) where started is not null;

-- What ended dead, by when: few beside all that ended well.
create index task_history_dead on task_history (last_updated) where status = 'dead';
