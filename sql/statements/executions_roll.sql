-- Counts attempts that ended, for the statistics by hour, and adds up what has been counted since: see the functions. Answers
-- whether there is more to do now.
select rolled or folded >= 20000 from (select executions_roll() as rolled, counts_fold() as folded offset 0) x
