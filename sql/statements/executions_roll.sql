-- Counts ended attempts for the statistics by hour (see the function). Returns whether there is more to do now. If not,
-- new rows of the history are added to its index of times (history_summarize), so that queries of the last minutes scan
-- little of it.
select rolled from (
  select rolled, case when not rolled then history_summarize() end
  from (select executions_roll() as rolled offset 0) x offset 0) y
