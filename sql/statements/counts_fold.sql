-- Adds up what has been counted since, unless somebody else is at it. Answers whether there is more to do now.
select counts_fold() >= 5000
