"""The rule for tasks submitted by SQL (reeve.submit): a task exists exactly if its transaction was committed.

fault_sql.py inserts a row into its own table in the same transaction. If the connection broke in the middle, only that
row shows whether the transaction was committed.
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
