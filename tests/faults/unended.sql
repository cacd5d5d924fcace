-- How much is still to be done: tasks, batches to which no task can be added any more, and callbacks that are soon due.
-- One statement counts all: the end of a task may end a batch, and the end of a batch creates its callback task.
select (select count(*) from tasks)
  + (select count(*) from batches where phase <> 'ended' and (implicit or closed_at is not null))
  + (select count(*) from callbacks where state = 'waiting' and next_at < clock_timestamp() + interval '1 hour')
