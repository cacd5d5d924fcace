-- How many live tasks each queue and type has, by status, and since when the first that is due is: as much as one answer finds
-- out. $1 queue or null, $2 where the page begins, or null. The last row has no queue, but tells where the next page begins.
select queue, type, queued, delayed, executing, failed, oldest_due, next_page from queue_counts($1, $2)
