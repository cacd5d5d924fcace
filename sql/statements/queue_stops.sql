-- Goes on with queues that are being stopped; answers those that have tasks to be ended, up to which id, and who wants it.
select name, up_to, by from queue_stops()
