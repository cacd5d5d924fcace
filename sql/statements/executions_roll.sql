-- Counts attempts that ended, for the statistics by hour: see the function. Answers whether there is more to do now. If not,
-- what is new in the history is entered into its index of times (history_summarize), so that nobody who asks for the last
-- minutes walks much of it.
select rolled from (
  select rolled, case when not rolled then history_summarize() end
  from (select executions_roll() as rolled offset 0) x offset 0) y
