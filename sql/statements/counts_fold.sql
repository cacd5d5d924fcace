-- Adds up what has been counted since, unless somebody else is at it. Answers whether there is more to do now; and, so that no
-- statement that leases wait for has to walk what an open transaction keeps of those tables, whether callbacks wait, and whether
-- tasks that were submitted by SQL are to be admitted.
select counts_fold() >= 5000, exists (select from callbacks where state = 'waiting'), exists (select from arrivals)
