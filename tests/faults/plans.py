"""Random plans of tasks in pipelines, stage by stage (script.h), and the pipelines of the fault tests."""

STAGES = ("a", "b", "c", "d")
MOST_STEPS = 12


def pipeline(name, order):
	"""Returns a definition with the stages in that order."""
	stages = [{"name": stage, "type": f"stage-{stage}", "max_attempts": 6, "timeout": "8s",
		"backoff": "exp:100ms:500ms"} for stage in order]
	return {"name": name, "stages": stages, "max_steps": MOST_STEPS}


def draw_step(rng):
	fails = f"f{rng.randint(1, 2)}" if rng.random() < 0.15 else ""
	goes = rng.choices(("", f">{rng.choice(STAGES)}", ".", "!", "-", ">nowhere"), (60, 25, 6, 4, 3, 2))[0]
	return f"{rng.randint(1, 60)}{fails}{goes}"


def draw_plan(rng):
	if rng.random() < 0.03:
		return "plan=2>b/1 loop"  # until MOST_STEPS is reached
	return "plan=" + "/".join(draw_step(rng) for _ in range(rng.randint(1, 8)))
