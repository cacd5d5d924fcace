-- Counts attempts that ended, for the statistics by hour, and adds up what has been counted since: see the functions. Answers
-- whether there is more to do now. What is new in the history is entered into its index of times (history_summarize), so that
-- nobody who asks for the last minutes walks much of it.
select rolled or folded >= 20000
from (select executions_roll() as rolled, counts_fold() as folded, history_summarize() offset 0) x
