-- Counts attempts that ended, for the statistics by hour: see the function. Answers whether there is more to do now. What is new in
-- the history is entered into its index of times (history_summarize), so that nobody who asks for the last minutes walks much of it.
select rolled from (select executions_roll() as rolled, history_summarize() offset 0) x
