"""One fault: created by a kind of fault (fault_kinds.py, outside_faults.py) and carried out by the run."""


class Fault:
	"""One fault. `text` describes it: its targets and its duration. The generator `steps` carries it out."""

	def __init__(self, kind, text, steps, victims):
		self.kind, self.text, self.victims = kind, text, victims
		self.begun = self.ended = None  # in µs of the monotonic clock
		self.outage = False  # nothing can work during the fault: recovery counts from its end
		self.calm = False  # no worker may be lost …
		self.silent = None  # … except at this manager, which does not answer, if leases are too short to leave it
		self.bounded = True  # the remaining parts must recover within a lease and two seconds
		self.limit_us = 0  # the limit for recovery of service, if it differs from that for other faults
		self.missed = ""  # why it had no effect; such a fault does not count and is drawn again
		self.interrupted = set()  # attempts whose tasks must end or run again within that time
		self.steps = steps(self)
