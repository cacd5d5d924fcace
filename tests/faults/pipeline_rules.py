"""The rules for pipelines. A task goes from stage to stage as its pipeline and its handlers choose. Each step happens
once, and the result of a step is the input of the next one.

A step consists of the attempts between two advances; the last of them completes it and advances the task. A task that
is retried manually continues in the step in which it ended.
"""

from facts import print_of


class Step:
	def __init__(self, number):
		self.number = number
		self.attempts = []  # from the tables
		self.done = None  # the attempt that advanced to the next step

	def __str__(self):
		return f"step {self.number}"


class Passage:
	"""A task's way through its pipeline, reconstructed from its attempts."""

	def __init__(self, f, row):
		self.row, self.task = row, row["id"]
		self.pipeline = next((p for p in f.tables.pipelines if p["id"] == row["pipeline_id"]), None)
		self.stages = {stage["name"]: stage for stage in self.pipeline["stages"]} if self.pipeline else {}
		self.steps = [Step(1)]
		for attempt in f.chains.get(self.task, []):
			self.steps[-1].attempts.append(attempt)
			if went_on(attempt):
				self.steps[-1].done = attempt
				self.steps.append(Step(self.steps[-1].number + 1))
		self.runs = {}  # number of a step -> its attempts as handlers saw them
		for begun in f.runs.get(self.task, []):
			if (self.task, begun.token) not in f.known:  # begun later, or reported by rules.py
				continue
			number = next((s.number for s in self.steps if s.done and begun.token <= s.done.token), len(self.steps))
			self.runs.setdefault(number, []).append(begun)

	def stage(self, step):
		"""Returns the name of the step's stage, from the tables."""
		return step.done.row["stage"] if step.done else self.row["stage"]

	def input(self, step):
		return step.done.row["details"] if step.done else self.row["details"]

	def follows(self, f, step, attempt):
		"""Returns what follows that attempt of the step, a stage's name, or None for the task's end; and a description
		of what its handler chose."""
		begun = f.after.begun.get((self.task, attempt.token))
		if begun is not None and begun.next is False:
			return None, "the end"
		if begun is not None and begun.next is not None:
			return begun.next, f"stage {begun.next}"
		return self.stages.get(self.stage(step), {}).get("next"), "to go on in order"


def went_on(attempt):
	return attempt.place == "task_attempts" and attempt.outcome == "completed" and attempt.row.get("details") is not None


def passages_of(f):
	if not hasattr(f, "passages"):
		f.passages = [Passage(f, rows[0]) for rows in f.by_id.values() if rows[0]["pipeline_id"] is not None]
	return f.passages


def is_over(passage):
	return "token" in passage.row


def submitted_to_theirs(f):
	for name, line in f.before.given.items():
		wanted = line.get("pipeline")
		for ack in f.before.acks.get(name, []):
			for row in f.by_id.get(ack["id"], []):
				got = next((p["name"] for p in f.tables.pipelines if p["id"] == row["pipeline_id"]), None)
				if got != wanted:
					f.add("I3 step-astray", f"{f.title(row['id'])} was submitted to pipeline {wanted}, and is of {got}")


def steps_are_counted(f):
	for passage in passages_of(f):
		entered, says = len(passage.steps), passage.row["step"]
		if says > entered:
			f.add("I6 step-missing", f"{f.title(passage.task)} is in step {says}; its attempts tell of {entered}")
		elif says < entered:
			f.add("I1 step-twice", f"{f.title(passage.task)} is in step {says}; its attempts have entered {entered}")
		if passage.pipeline and says > passage.pipeline["max_steps"]:
			f.add("I5 endless", f"{f.title(passage.task)} is in step {says} of at most {passage.pipeline['max_steps']}")
		for attempt in f.chains.get(passage.task, []):
			idle = attempt.place == "task_attempts" and attempt.outcome == "completed" and not went_on(attempt)
			if idle and not f.has_event(passage.task, "retried") and not f.has_event(passage.task, "restarted"):
				f.add("I3 step-ignored", f"{f.title(passage.task)}: {attempt} completed its stage, and no step followed")


def stages_follow(f):
	for passage in passages_of(f):
		if passage.pipeline is None:
			f.add("I3 step-astray", f"{f.title(passage.task)} is of pipeline {passage.row['pipeline_id']}, which is nowhere")
			continue
		wanted, why = passage.pipeline["stages"][0]["name"], "it is the first"
		for step in passage.steps:
			stage = passage.stage(step)
			if stage != wanted:
				f.add("I3 step-astray", f"{f.title(passage.task)}: {step} was in stage {stage}; it should be {wanted}: {why}")
			kind = passage.stages.get(stage, {}).get("type")
			for attempt in step.attempts:
				if attempt.place == "task_attempts" and (attempt.row["stage"], attempt.row["type"]) != (stage, kind):
					f.add("I3 step-astray", f"{f.title(passage.task)}: {step}, in stage {stage} of type {kind}, has {attempt} "
						f"in stage {attempt.row['stage']} of type {attempt.row['type']}")
			for begun in passage.runs.get(step.number, []):
				if begun.starts and begun.starts[0].get("type") not in (None, kind):
					f.add("I3 step-astray", f"{f.title(passage.task)}: {begun} of {step}, in stage {stage} of type {kind}, was given "
						f"to the handler of {begun.starts[0]['type']}")
			if step.done:
				wanted, chosen = passage.follows(f, step, step.done)
				why = f"the handler of {step.done} chose {chosen}"


def inputs_are_results(f):
	for passage in passages_of(f):
		line = f.before.given.get(passage.row["name"], {})
		given = line.get("input")  # a print_of()
		for step in passage.steps:
			got = print_of(passage.input(step))
			if given is not None and got != given:
				f.add("I3 step-input", f"{f.title(passage.task)}: {step} has the input {passage.input(step)!r} ({got}); "
					f"{'the step before gave' if step.number > 1 else 'it was submitted with'} {given}")
			for begun in passage.runs.get(step.number, []):
				seen = begun.starts[0].get("input") if begun.starts else None
				if seen is not None and seen != got:
					f.add("I3 step-input", f"{f.title(passage.task)}: {begun} of {step} was given {seen}; the step's input is {got}")
			if not step.done:
				continue
			given = print_of(step.done.row["result"])
			begun = f.after.begun.get((passage.task, step.done.token))
			if begun is not None and begun.result is not None and begun.result != given:
				f.add("I3 stale-result", f"{f.title(passage.task)}: {step.done} of {step} has the result {given}; its handler gave "
					f"{begun.result}")


def steps_take_turns(f):
	for passage in passages_of(f):
		for step, following in zip(passage.steps, passage.steps[1:]):
			done = f.after.begun.get((passage.task, step.done.token))
			for begun in passage.runs.get(following.number, []):
				if done is not None and done.end is not None and begun.start < done.end:
					f.add("I2 step-early", f"{f.title(passage.task)}: {begun} of {following} had begun before {done} had ended {step}")


def ends_fit(f):
	for passage in passages_of(f):
		row, last = passage.row, passage.steps[-1]
		if not is_over(passage) or passage.pipeline is None or not last.attempts:
			continue
		begun = f.after.begun.get((passage.task, row["token"]))
		wanted, chosen = passage.follows(f, last, last.attempts[-1])
		where = f"{f.title(passage.task)} is {row['status']} ({row['error_code']}) in {last}, stage {row['stage']}"
		unknown = wanted is not None and wanted not in passage.stages
		if row["status"] == "completed" and wanted is not None:
			f.add("I3 step-end", f"{where}; its handler chose {chosen}, which is {wanted}")
		if row["status"] != "dead":
			continue
		fits = {"unknown_stage": unknown, "too_many_steps": wanted in passage.stages and row["step"] == passage.pipeline["max_steps"]}
		completed = begun is not None and begun.outcome == "completed" and row["by_report"]
		if completed and not fits.get(row["error_code"], False) or row["error_code"] in fits and not completed:
			f.add("I3 step-end", f"{where}; its handler {'completed and ' if completed else 'did not complete, nor '}chose {chosen}")


def attempts_of_stages(f):
	for passage in passages_of(f):
		for step in passage.steps:
			most = passage.stages.get(passage.stage(step), {}).get("max_attempts")
			for attempt in step.attempts:
				if most is not None and attempt.number > most:
					f.add("I5 endless", f"{f.title(passage.task)}: {attempt} of {step}, whose stage has at most {most}")


def steps_are_told(f):
	for passage in passages_of(f):
		told = [(e["version"], e["note"]) for e in f.events.get(passage.task, []) if e["event"] == "stage"]
		wanted = [(step.done.end, f"{passage.stage(step)} -> {passage.stage(following)}")
			for step, following in zip(passage.steps, passage.steps[1:])]
		if sorted(told) != wanted:
			f.add("I6 step-untold", f"{f.title(passage.task)}: its audit tells of the steps {sorted(told)}; it should be {wanted}")


PIPELINE_RULES = (
	submitted_to_theirs, steps_are_counted, stages_follow, inputs_are_results, steps_take_turns, ends_fit, attempts_of_stages,
	steps_are_told,
)
