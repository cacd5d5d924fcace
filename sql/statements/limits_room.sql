-- Returns how many more tasks of each queue with a limit may execute now.
select queue, greatest(maximum - taken, 0) from limits
