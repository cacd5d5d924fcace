-- Returns how many live tasks each queue and type has, by status, and since when the first due one is due: as much as
-- one answer finds out. If there is more, the last row has no queue, and its next_page is where the next page begins.
-- takes ListQueuesRequest: queue?, page?, @max_bytes
-- gives ListQueuesResponse.queues: queue, type, queued, delayed, executing, failed, oldest_due_us, .next_page
select queue, type, queued, delayed, executing, failed, oldest_due, next_page from queue_counts($1, $2, $3::bigint)
