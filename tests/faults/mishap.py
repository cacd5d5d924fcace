"""One fault: what a kind of fault (mishaps.py, strangers.py) makes, and the run carries out."""


class Mishap:
	"""One fault. `text` says what, with which victim and for how long; `steps` does it."""

	def __init__(self, kind, text, steps, victims):
		self.kind, self.text, self.victims = kind, text, victims
		self.begun = self.ended = None  # in µs of the monotonic clock
		self.outage = False  # nothing can work meanwhile: recovery counts from the end
		self.calm = False  # workers must not feel it: none is lost …
		self.silent = None  # … but those that were with this manager, which does not answer, if their leases are too short to leave it
		self.bounded = True  # the parts that are left must have recovered within a lease and two seconds
		self.limit_us = 0  # what service must be back within, if another time is promised than for all faults
		self.missed = ""  # why it had no effect, if it had none: it is no fault then, and drawn again
		self.interrupted = set()  # attempts whose tasks must be taken up elsewhere within that time
		self.steps = steps(self)
