"""The rule for tasks submitted by SQL (reeve.submit): a task is there exactly if the transaction is that submitted it.

fault_sql.py, which submits so, writes a row into a table of its own in the same transaction. Whether that was committed when the
connection broke in the middle nobody knows; that row does.
"""


def tasks_are_as_their_transactions(f):
	if not f.before.by_sql:
		return
	orders = {row["name"]: row["task_id"] for row in f.tables.orders}
	made = {}
	for task, rows in f.by_id.items():
		if rows[0]["name"] in f.after.by_sql:
			made[rows[0]["name"]] = task
	for name in sorted(f.before.by_sql):
		if name in orders and name not in made:
			f.add("I1 lost", f"{name} was submitted by SQL as task {orders[name]}, and committed; no table has it")
		elif name in orders and made[name] != orders[name]:
			f.add("I1 mixed-up", f"{name} was submitted by SQL as task {orders[name]}, and is task {made[name]}")
	for name, task in made.items():
		if name not in orders and (name in f.before.by_sql or not f.options.running):
			ended = "was rolled back" if name in f.before.rolled_back else "is not there"
			f.add("I1 half-made", f"{f.title(task)} was submitted by SQL; what its transaction did besides {ended}")
	for name in f.before.rolled_back:
		if name in orders:
			f.add("I1 half-made", f"{name} was rolled back by its submitter, and a row of its transaction is there")


SQL_RULES = (tasks_are_as_their_transactions,)
