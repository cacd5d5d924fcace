"""The rules for maintained counts. history_totals, in total and by day, must equal a full count of the history, and
live_totals a full count of the tasks. Both sides are read in one snapshot, so they must never differ. Only the border
between queued and delayed tasks depends on the clock. So delayed tasks are compared by the second in which they are
due. If a clock that was ahead has been set back, only tasks due later than the latest time ever written are compared.
"""

from pathlib import Path

COUNTS = """select coalesce(c.route_id, h.route_id) as route, coalesce(c.status, h.status) as status, coalesce(c.day, h.day)::text as day,
	coalesce(c.count, 0) as counted, coalesce(h.count, 0) as found
	from (select null::date as day, route_id, status, count from reeve.history_totals where count <> 0
		union all
		select keep_until, route_id, status, sum(count)::bigint
		from (select * from reeve.history_day_counts union all
			select keep_until, route_id, status, count from reeve.count_changes where keep_until is not null) d
		group by 1, 2, 3 having sum(count) <> 0) c
	full join (select keep_until as day, route_id, status, count(*) from reeve.task_history
		group by grouping sets ((route_id, status), (keep_until, route_id, status))) h
	on h.route_id = c.route_id and h.status = c.status and coalesce(h.day, 'infinity') = coalesce(c.day, 'infinity')
	where c.count is distinct from h.count"""


def totals_are_a_full_count(f):
	for row in f.tables.counts:
		of = f"of {row['day']}" if row["day"] else "in all"
		f.add("I6 miscounted", f"route {row['route']} has {row['found']} {row['status']} tasks {of} in the history, and {row['counted']} are counted")


LIVE = (Path(__file__).parent / "live_counts.sql").read_text(encoding="utf-8")


def live_counts_are_a_full_count(f):
	for row in f.tables.live_counts:
		due = f" due at {row['due']}" if row["due"] else ""
		f.add("I6 miscounted", f"route {row['route']} has {row['found']} {row['status']} tasks{due}, and {row['counted']} are counted")


COUNT_RULES = (totals_are_a_full_count, live_counts_are_a_full_count)
