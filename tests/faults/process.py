"""A process of a run of faults, and its port."""

import ctypes
import os
import pwd
import random
import signal
import socket
import subprocess
import time

LIBC = ctypes.CDLL(None)
PR_SET_PDEATHSIG = 1


class Failure(Exception):
	"""The run cannot continue."""


def taken_ports():
	taken = set()
	for name in ("/proc/net/tcp", "/proc/net/tcp6"):
		with open(name, encoding="ascii") as file:
			taken |= {int(line.split()[1].rsplit(":", 1)[1], 16) for line in file.readlines()[1:]}
	return taken


given_ports = set()  # not all of them are in use yet


def free_port():
	"""Returns a free port below the range of outgoing connections: a restarted manager needs the same port again."""
	folder = os.environ.get("REEVE_TEST_RUN")
	if folder:  # tests/run has reserved a range of ports for its suites
		first, last = map(int, os.environ["REEVE_TEST_PORTS"].split())
		taken = taken_ports()
		for port in range(first, last + 1):
			try:
				os.mkdir(f"{folder}/ports/{port}")
			except FileExistsError:
				continue
			if port not in taken:
				return port
	while True:
		port = random.SystemRandom().randrange(28000, 32000)
		if port in given_ports:
			continue
		with socket.socket() as attempt:
			try:
				attempt.bind(("127.0.0.1", port))
				given_ports.add(port)
				return port
			except OSError:
				continue


class Process:
	"""A program that can be started repeatedly. Its output goes to one log."""

	def __init__(self, fixture, name):
		self.fixture, self.name = fixture, name
		self.popen = None
		self.frozen, self.launched = False, 0

	def launch(self, command, environment=None, user=None, ready=None):
		def prepare():
			LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGQUIT if user else signal.SIGKILL)

		if user and os.getuid() == 0:
			command = ["setpriv", f"--reuid={user}", f"--regid={pwd.getpwnam(user).pw_gid}", "--clear-groups", "--pdeathsig=QUIT", "--",
				*command]
		with open(f"{self.fixture.folder}/log/{self.name}.log", "ab") as log:
			self.popen = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, preexec_fn=prepare,
				env={**os.environ, **self.fixture.environment, **(environment or {})}, cwd=self.fixture.folder)
		self.frozen, self.launched = False, time.monotonic()
		if ready:
			self.fixture.await_(ready, 60, f"{self.name} to be ready")

	@property
	def alive(self):
		return self.popen is not None and self.popen.poll() is None

	@property
	def code(self):
		return self.popen.poll()

	def signal(self, number):
		if self.alive:
			self.popen.send_signal(number)
			self.frozen = number == signal.SIGSTOP if number in (signal.SIGSTOP, signal.SIGCONT) else self.frozen

	def kill(self):
		self.signal(signal.SIGKILL)
		if self.popen:
			self.popen.wait()

	def end(self, seconds=40):
		"""Ends it by SIGTERM. Returns False if it had to be killed."""
		if not self.alive:
			return True
		self.signal(signal.SIGCONT)
		self.signal(signal.SIGTERM)
		try:
			self.popen.wait(seconds)
			return True
		except subprocess.TimeoutExpired:
			self.kill()
			return False
