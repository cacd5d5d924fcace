-- Adds up count_changes, unless another session is doing so. Returns whether there is more to do now. It also returns
-- whether callbacks wait, and whether the inbox has tasks, so that no statement that leases wait for has to scan the
-- dead rows that an open transaction keeps in those tables.
select counts_fold() >= 5000, exists (select from callbacks where state = 'waiting'), exists (select from inbox)
