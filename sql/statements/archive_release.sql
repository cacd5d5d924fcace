-- Lets other managers archive.
select pg_advisory_unlock_all()
