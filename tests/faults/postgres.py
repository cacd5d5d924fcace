"""The private PostgreSQL of a run of faults, and sessions that hold locks in it."""

import glob
import itertools
import os
import pwd
import re
import shutil
import signal
import subprocess
import threading

from process import Failure, Process


def find_postgres():
	folders = [os.environ.get("REEVE_TEST_PG_BIN", "")] + sorted(glob.glob("/usr/lib/postgresql/*/bin"), reverse=True)
	path = shutil.which("initdb")
	folders += [os.path.dirname(path)] if path else []
	for folder in folders:
		if folder and os.access(os.path.join(folder, "initdb"), os.X_OK):
			return folder
	raise Failure("PostgreSQL's programs are nowhere; REEVE_TEST_PG_BIN may name their folder")


def type_all(psql, lines):
	try:
		psql.stdin.write("".join(f"{line}\n" for line in lines))
		psql.stdin.close()
	except OSError:
		pass  # it has ended


class Postgres(Process):
	def __init__(self, fixture):
		super().__init__(fixture, "postgres")
		self.bin = find_postgres()
		self.data = f"{fixture.folder}/postgres"
		self.user = "postgres" if os.getuid() == 0 else pwd.getpwuid(os.getuid()).pw_name
		self.conninfo = f"host={self.data} user=reeve dbname=reeve"
		self.clock, self.clock_file, self.jumped = None, f"{fixture.folder}/clock", False
		self.numbers = itertools.count(1)

	def as_user(self, *command, **options):
		if os.getuid() == 0:
			command = ("setpriv", f"--reuid={self.user}", f"--regid={pwd.getpwnam(self.user).pw_gid}", "--clear-groups",
				"--", *command)
		done = subprocess.run(command, cwd=self.data, capture_output=True, text=True, check=False, **options)
		if done.returncode != 0:
			raise Failure(f"{' '.join(command)}: {done.stderr}")

	def make(self):
		os.mkdir(self.data, 0o700)
		if os.getuid() == 0:
			shutil.chown(self.data, self.user, pwd.getpwnam(self.user).pw_gid)
		self.as_user(f"{self.bin}/initdb", "-D", self.data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C",
			"--no-sync")
		with open(f"{self.data}/postgresql.conf", "a", encoding="utf-8") as file:
			# The machine itself does not fail, so a killed PostgreSQL loses nothing even without flushes.
			file.write("listen_addresses = ''\nfsync = off\nshared_buffers = 64MB\nmax_wal_size = 512MB\n"
				"log_line_prefix = '%m [%p] %a '\n")
		self.as_user(f"{self.bin}/postgres", "--single", "-c", "exit_on_error=on", "-D", self.data, "postgres",
			input="create role reeve login\ncreate database reeve owner reeve\n")

	def start(self):
		faked = []
		if self.clock:
			faked = ["env", f"LD_PRELOAD={self.clock}", f"SET_CLOCK_FILE={self.clock_file}"]
		self.launch([*faked, f"{self.bin}/postgres", "-D", self.data, "-k", self.data], user=self.user)

	def fake_clock(self, library):
		"""Makes its clock settable. Call this before the start."""
		self.clock = shutil.copy(library, f"{self.clock_file}.so")  # PostgreSQL's user can read it there
		with open(self.clock_file, "w", encoding="ascii"):
			self.set_clock(0)

	def set_clock(self, seconds):
		"""Sets its clock this far ahead of the machine's (tests/tools/set_clock.c)."""
		os.utime(self.clock_file, (seconds, seconds))
		self.jumped = self.jumped or seconds != 0

	def answers(self):
		return subprocess.run([f"{self.bin}/pg_isready", "-q", "-h", self.data], check=False).returncode == 0

	def stop(self, number):
		self.signal(number)
		self.popen.wait(60)

	def signal_all(self, number):
		"""Sends a signal to the server and all its processes."""
		self.frozen = number == signal.SIGSTOP
		with open(f"/proc/{self.popen.pid}/task/{self.popen.pid}/children", encoding="ascii") as file:
			children = [int(child) for child in file.read().split()]
		for pid in [self.popen.pid, *children]:
			try:
				os.kill(pid, number)
			except ProcessLookupError:
				pass

	def hold(self, statement, seconds, user="postgres", count="select 1"):
		"""Starts a session that runs the statement (it may be empty) and then the query `count` in a transaction. If
		the query returns a number above 0, the transaction stays open for `seconds`. Returns its Holder."""
		holder = Holder(self, f"holder{next(self.numbers)}")
		holder.start(statement, seconds, user, count)
		self.fixture.helpers.append(holder)
		return holder

	def psql(self, user="postgres"):
		return [f"{self.bin}/psql", "-XAtq", "-h", self.data, "-U", user, "-d", "reeve"]

	def make_unprivileged(self):
		"""Creates a role that may connect to the database and has no rights on anything in it."""
		self.sql("do $$ begin create role unprivileged login; exception when duplicate_object then null; end $$")

	def type_in(self, lines, user):
		"""Starts a session of that user and sends it these lines. Returns its process."""
		psql = subprocess.Popen([*self.psql(user), "-v", "ON_ERROR_STOP=1"], stdin=subprocess.PIPE,
			stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, text=True)
		threading.Thread(target=type_all, args=(psql, lines), daemon=True).start()
		return psql

	def left_open(self):
		"""Returns how many transactions of managers wait for their next statement for longer than they ever should."""
		rows = self.sql("select count(*) from pg_stat_activity where application_name like 'reeve-manager %' and state like "
			"'idle in transaction%' and state_change < clock_timestamp() - interval '100 ms'")
		return int(rows[0][0]) if rows else 0

	def sql(self, query):
		"""Returns rows of columns, as text; None if the database is unavailable, or frozen by this process, which could
		not resume it while waiting."""
		if self.frozen:
			return None
		done = subprocess.run([*self.psql(), "-F", "\t", "-v", "ON_ERROR_STOP=1", "-c", query], capture_output=True, text=True, check=False,
			env={**os.environ, "PGOPTIONS": "-c search_path=reeve,public"})
		if done.returncode == 2:  # the connection failed
			return None
		if done.returncode != 0:
			raise Failure(f"{query}: {done.stderr}")
		return [line.split("\t") for line in done.stdout.splitlines()]


class Holder(Process):
	"""A session that keeps a transaction open. It gives up after a second if another transaction blocks it."""

	def __init__(self, postgres, name):
		super().__init__(postgres.fixture, name)
		self.postgres = postgres

	def start(self, statement, seconds, user, count):
		path = f"{self.fixture.folder}/{self.name}.sql"
		with open(path, "w", encoding="utf-8") as script:
			script.write(f"begin; set search_path = reeve; set lock_timeout = '1s';\n{statement + ';' if statement else ''}\n"
				f"select held, held > 0 as any from ({count}) x (held) \\gset\n\\echo held :held\n"
				f"\\if :any\nselect pg_sleep({seconds});\n\\endif\nrollback;\n")
		# Line by line, so that the output can be read while the transaction is open.
		self.launch(["stdbuf", "-oL", *self.postgres.psql(user), "-v", "ON_ERROR_STOP=1", "-f", path])

	def holds(self):
		"""Returns how many rows (or what its `count` counts) it holds; 0 if it got none; None if not known yet."""
		ended = not self.alive
		found = re.search(r"^held (\d+)$", self.fixture.log_of(self.name), re.MULTILINE)
		return int(found[1]) if found else 0 if ended else None
