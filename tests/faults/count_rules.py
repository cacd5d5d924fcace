"""The rule for what is counted as it ends: history_totals, by day too, is what a full count of the history gives. Both are read
under one snapshot, so there is no moment in which they may differ.
"""

COUNTS = """select coalesce(c.route_id, h.route_id) as route, coalesce(c.status, h.status) as status, coalesce(c.day, h.day)::text as day,
	coalesce(c.count, 0) as counted, coalesce(h.count, 0) as found
	from (select null::date as day, route_id, status, count from reeve.history_totals where count <> 0
		union all
		select keep_until, route_id, status, sum(count)::bigint
		from (select * from reeve.history_day_counts union all select * from reeve.history_changes) d
		group by 1, 2, 3 having sum(count) <> 0) c
	full join (select keep_until as day, route_id, status, count(*) from reeve.task_history
		group by grouping sets ((route_id, status), (keep_until, route_id, status))) h
	on h.route_id = c.route_id and h.status = c.status and coalesce(h.day, 'infinity') = coalesce(c.day, 'infinity')
	where c.count is distinct from h.count"""


def totals_are_a_full_count(f):
	for row in f.tables.counts:
		of = f"of {row['day']}" if row["day"] else "in all"
		f.add("§9.6 miscounted", f"route {row['route']} has {row['found']} {row['status']} tasks {of} in the history, and {row['counted']} are counted")


COUNT_RULES = (totals_are_a_full_count,)
