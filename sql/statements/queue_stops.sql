-- Continues the stops of queues; returns those with tasks to end, up to which id, and who stopped them.
select name, up_to, by from queue_stops()
