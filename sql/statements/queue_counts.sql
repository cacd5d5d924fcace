-- What stands in each queue, by type: as much of it as one answer counts. $1 queue or null, $2 where the page begins, or null, $3 how
-- many tasks are counted. The last row has no queue, but tells where the next page begins.
select queue, type, queued, delayed, executing, failed, oldest_due, next_page from live_counts($1, $2, $3)
