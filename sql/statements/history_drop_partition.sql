-- Drops a partition of the history. $1 its name.
select drop_history_partition($1)
