-- Drops a partition of the history. $1 which.
select drop_history_partition($1)
