-- Ends a transaction well.
commit
