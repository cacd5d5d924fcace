-- Moves the tasks of `done`, whose attempts completed, to the history.
 moved as (select *, 'completed' as status, token as started, true as by_report, null::boolean as recoverable from done),
{part history}
