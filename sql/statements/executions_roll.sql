-- Counts attempts that ended, for the statistics by hour: see the function. Answers whether there is more to do now.
select executions_roll()
