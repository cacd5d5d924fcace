"""The processes of a run of faults: a private PostgreSQL, managers, proxies, workers, and a host that can be cut off.

Everything but type_in() runs in one thread; the loop of `run` waits for what takes time. All started processes end with
this process, however it ends.
"""

import ctypes
import glob
import itertools
import os
import pwd
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
LIBC = ctypes.CDLL(None)
PR_SET_PDEATHSIG = 1
MANAGERS = ("one", "two", "three", "four")
MAX_CALLS, MAX_CONNECTIONS = 4000, 1000  # low, so that floods reach them


class Failure(Exception):
	"""The run cannot continue."""


def find_postgres():
	folders = [os.environ.get("REEVE_TEST_PG_BIN", "")] + sorted(glob.glob("/usr/lib/postgresql/*/bin"), reverse=True)
	path = shutil.which("initdb")
	folders += [os.path.dirname(path)] if path else []
	for folder in folders:
		if folder and os.access(os.path.join(folder, "initdb"), os.X_OK):
			return folder
	raise Failure("PostgreSQL's programs are nowhere; REEVE_TEST_PG_BIN may name their folder")


def taken_ports():
	taken = set()
	for name in ("/proc/net/tcp", "/proc/net/tcp6"):
		with open(name, encoding="ascii") as file:
			taken |= {int(line.split()[1].rsplit(":", 1)[1], 16) for line in file.readlines()[1:]}
	return taken


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
		with socket.socket() as attempt:
			try:
				attempt.bind(("127.0.0.1", port))
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


class Proxy(Process):
	"""A proxy (tests/tools/proxy.c)."""

	def __init__(self, fixture, name, to, speaks):
		super().__init__(fixture, name)
		self.to, self.speaks, self.port = to, speaks, free_port()
		self.control = f"{fixture.folder}/{name}.control"

	def start(self):
		self.launch([f"{self.fixture.bin}/reeve-test-proxy", "--listen", str(self.port), "--to", self.to, "--control", self.control,
			"--speaks", self.speaks], ready=lambda: os.path.exists(self.control))

	def tell(self, *words):
		command = [f"{self.fixture.bin}/reeve-test-proxy", "--tell", self.control, *words]
		done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=20,
			env={**os.environ, **self.fixture.environment})
		if done.returncode != 0:
			raise Failure(f"the proxy {self.name} does not take '{' '.join(words)}': {done.stdout}{done.stderr}")
		return done.stdout

	def applied(self):
		"""Returns how often its rules have applied since its start."""
		return int(re.search(r"applied (\d+)", self.tell("status"))[1])


class Receiver(Process):
	"""A receiver of callbacks (tests/tools/http_receiver.py). Its log is a ledger."""

	def __init__(self, fixture, name):
		super().__init__(fixture, name)
		self.port = free_port()
		self.url = f"http://127.0.0.1:{self.port}/fail/1"

	def start(self):
		path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../tools/http_receiver.py")
		self.launch([sys.executable, path, "--port", str(self.port), "--log", f"{self.fixture.ledgers}/http.received"], ready=self.listens)

	def listens(self):
		with socket.socket() as attempt:
			return attempt.connect_ex(("127.0.0.1", self.port)) == 0


class Manager(Process):
	def __init__(self, fixture, name, conninfo):
		super().__init__(fixture, name)
		self.conninfo, self.port = conninfo, free_port()
		self.listens = [f"tcp://127.0.0.1:{self.port}"]
		self.url = self.listens[0]

	def start(self):
		self.launch([f"{self.fixture.bin}/reeve-manager", "--database", self.conninfo, "--listen", ",".join(self.listens),
			*(["--insecure"] if len(self.listens) > 1 else []), *self.fixture.manager_options])

	def answers(self):
		with socket.socket() as attempt:
			return attempt.connect_ex(("127.0.0.1", self.port)) == 0


class Worker(Process):
	"""A worker of the `kind` exec or function. Each of its lives has a new name, unless start() keeps the last one."""

	def __init__(self, fixture, name, kind, managers, host=None, types=None):
		super().__init__(fixture, name)
		self.types = types
		self.kind, self.managers, self.host, self.lives = kind, managers, host, 0
		self.life = ""
		self.wanted = True  # the run wants it to be alive

	def start(self, same_name=False):
		if not same_name:
			self.lives += 1
		self.life = f"{self.name}.{self.lives}"
		self.wanted = True
		common = ["--manager", ",".join(self.managers), "--name", self.life, "--concurrency",
			"8" if self.kind == "exec" else "16"]
		if self.kind == "exec":
			command = [f"{self.fixture.bin}/reeve-worker", "--handlers", f"{self.fixture.folder}/handlers.ini", "--drain-timeout", "10s",
				"--kill-grace", "300ms", *common]
		else:
			command = [f"{self.fixture.bin}/fault-worker", "--ledger", self.fixture.ledgers, "--drain-timeout", "10000", "--prefetch", "2",
				"--host", self.host.name if self.host else "local", *(["--type", ",".join(self.types)] if self.types else []), *common]
		self.launch(self.host.inside(command) if self.host else command, environment={"FAULT_LEDGER": self.fixture.ledgers,
			"FAULT_WORKER": self.life, "FAULT_HOST": self.host.name if self.host else "local"})


	def killed_by_watchdog(self):
		"""Whether it has ended because a function of its own did not stop when the lease was over."""
		return self.kind == "function" and self.code == -signal.SIGKILL and \
			f"killing the worker, process {self.popen.pid}\n" in self.fixture.log_of(self.name)

	def children(self):
		"""Returns the children of its own process: the supervisor."""
		with open(f"/proc/{self.popen.pid}/task/{self.popen.pid}/children", encoding="ascii") as file:
			return [int(child) for child in file.read().split()]


class Host(Process):
	"""A network namespace with a link to this machine. The link can be taken down."""

	def __init__(self, fixture, name):
		super().__init__(fixture, name)
		port = free_port()  # its number is unique, and so are the link's name and addresses
		self.link, n = f"rv{port}", 4 * (port - 20000)
		self.near, self.far = (f"10.98.{n // 256}.{n % 256 + i}" for i in (1, 2))

	@staticmethod
	def permitted():
		return os.getuid() == 0 and shutil.which("ip") is not None and \
			subprocess.run(["unshare", "--net", "true"], capture_output=True, check=False).returncode == 0

	def start(self):
		self.launch(["unshare", "--net", "sleep", "infinity"])
		ours = os.readlink("/proc/self/ns/net")
		self.fixture.await_(lambda: os.readlink(f"/proc/{self.popen.pid}/ns/net") != ours, 5, "the network namespace")
		for command in (
			["ip", "link", "add", self.link, "type", "veth", "peer", "name", "far", "netns", str(self.popen.pid)],
			["ip", "address", "add", f"{self.near}/30", "dev", self.link],
			["ip", "link", "set", self.link, "up"],
			self.inside(["ip", "address", "add", f"{self.far}/30", "dev", "far"]),
			self.inside(["ip", "link", "set", "far", "up"]),
			self.inside(["ip", "link", "set", "lo", "up"]),
		):
			subprocess.run(command, check=True)

	def inside(self, command):
		return ["nsenter", f"--net=/proc/{self.popen.pid}/ns/net", "--", *command]

	def set_link(self, state):
		subprocess.run(["ip", "link", "set", self.link, state], check=True)


class Fixture:
	"""All processes of a run."""

	def __init__(self, folder, programs, lease_ms, managers=2, clock=False):
		self.folder, self.bin, self.n_managers, self.with_clock = folder, programs, managers, clock
		self.lease_ms, self.heartbeat_ms = lease_ms, lease_ms // 3
		self.ledgers = f"{folder}/ledgers"
		self.reports = f"{folder}/sanitizer"
		for path in (f"{folder}/log", self.ledgers, self.reports):
			os.makedirs(path, exist_ok=True)
		os.chmod(folder, 0o755)  # PostgreSQL's user needs access
		log_path = f"log_path={self.reports}/report"
		self.environment = {
			"ASAN_OPTIONS": f"detect_leaks=0:handle_abort=1:exitcode=97:{log_path}",
			"UBSAN_OPTIONS": f"print_stacktrace=1:{log_path}",
			"TSAN_OPTIONS": f"exitcode=97:{log_path}",
		}
		self.manager_options = ["--callback-private", "--lease", f"{lease_ms}ms", "--heartbeat", f"{self.heartbeat_ms}ms", "--expiry-grace",
			f"{2 * lease_ms}ms", "--fetch-wait", "500ms", "--max-calls", str(MAX_CALLS), "--max-connections", str(MAX_CONNECTIONS)]
		self.postgres = Postgres(self)
		self.managers, self.workers, self.proxies, self.submitters = {}, {}, {}, {}
		self.helpers = []  # run only during a fault
		self.receiver = Receiver(self, "receiver")
		self.host = Host(self, "far") if Host.permitted() else None

	def await_(self, condition, seconds, what):
		until = time.monotonic() + seconds
		while not condition():
			if time.monotonic() > until:
				raise Failure(f"waited {seconds} s for {what}")
			time.sleep(0.02)

	def build(self):
		self.postgres.make()
		if self.with_clock:
			self.postgres.fake_clock(f"{self.bin}/set-clock.so")
		self.postgres.start()
		self.await_(self.postgres.answers, 60, "PostgreSQL to answer")
		with open(f"{self.folder}/handlers.ini", "w", encoding="utf-8") as file:
			for kind in ("fault-exec", "fault-entry", "fault-exit", "fault-told", "stage-b", "stage-d"):
				file.write(f"[handler {kind}]\nexec = {self.bin}/fault-handler\n")
		# Managers connect to the database through proxies; so do some workers to the first two managers.
		for name in MANAGERS[: self.n_managers]:
			wire = Proxy(self, f"database-{name}", f"{self.postgres.data}/.s.PGSQL.5432", "postgres")
			self.proxies[wire.name] = wire
			self.managers[name] = Manager(self, name,
				f"hostaddr=127.0.0.1 port={wire.port} user=reeve dbname=reeve sslmode=disable gssencmode=disable")
		one, two = self.managers["one"], self.managers["two"]
		to_one = Proxy(self, "to-one", f"127.0.0.1:{one.port}", "sp")
		to_two = Proxy(self, "to-two", f"127.0.0.1:{two.port}", "sp")
		self.proxies.update({"to-one": to_one, "to-two": to_two})
		direct = [manager.url for manager in self.managers.values()]
		proxied = [f"tcp://127.0.0.1:{to_one.port}", f"tcp://127.0.0.1:{to_two.port}"]
		if self.host:
			self.host.start()
			for manager in self.managers.values():
				manager.listens.append(f"tcp://{self.host.near}:{manager.port}")
		for proxy in self.proxies.values():
			proxy.start()
		self.receiver.start()
		for manager in self.managers.values():
			manager.start()
		workers = [("e1", "exec", direct, None), ("e2", "exec", proxied[::-1], None), ("f1", "function", direct[::-1], None),
			("f2", "function", proxied, None)]
		if self.host:  # callers from other hosts need an access token
			self.await_(lambda: self.managers["one"].answers(), 60, "the manager to answer")
			self.environment["REEVE_ACCESS_TOKEN"] = subprocess.run([f"{self.bin}/reeve", "--manager", one.url, "token", "create", "h1",
				"--role", "worker,admin", "--connect-timeout", "60s"], check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
			workers.append(("h1", "exec", [f"tcp://{self.host.near}:{m.port}" for m in self.managers.values()], self.host))
		for name, kind, managers, host in workers:
			self.workers[name] = Worker(self, name, kind, managers, host)
			self.workers[name].start()
		self.await_(lambda: self.registered() == len(workers), 60, "the workers to be registered")

	def urls_of(self, manager):
		"""Returns the URLs of the manager: direct ones, and those through a proxy."""
		proxied = [wire for wire in self.proxies.values() if wire.to == f"127.0.0.1:{manager.port}"]
		return [*manager.listens, *(f"tcp://127.0.0.1:{wire.port}" for wire in proxied)]

	def registered(self):
		try:
			return int(self.postgres.sql("select count(*) from workers where not lost")[0][0])
		except Failure:  # no manager has created the tables yet
			return 0

	def submit(self, name, *options):
		self.submitters[name] = self.start_submitter(name, self.managers.values(), *options)

	def start_submitter(self, name, managers, *options):
		submitter = Process(self, name)
		submitter.launch([f"{self.bin}/fault-submitter", "--managers", ",".join(m.url for m in managers),
			"--ledger", self.ledgers, "--name", name, *(["--clock-jumps"] if self.with_clock else []), *options])
		return submitter

	def submit_during(self, name, managers, *options):
		"""Starts a submitter that runs only during a fault."""
		self.helpers.append(self.start_submitter(name, managers, *options))
		return self.helpers[-1]

	def work_during(self, name, types):
		worker = Worker(self, name, "function", [m.url for m in self.managers.values()], types=types)
		worker.start()
		self.helpers.append(worker)
		return worker

	def flood(self, name, manager, kind, count, seconds):
		"""Starts one client that floods a manager (fault_flood.c)."""
		flood = Process(self, name)
		flood.launch([f"{self.bin}/fault-flood", "--manager", manager.url, "--kind", kind, "--count", str(count), "--seconds", str(seconds),
			"--lease", str(self.lease_ms), "--types", "fault-exec,fault-function"])
		self.helpers.append(flood)
		return flood

	def log_of(self, name):
		with open(f"{self.folder}/log/{name}.log", encoding="utf-8", errors="replace") as log:
			return log.read()

	def submit_by_sql(self, name, *options):
		"""Starts a submitter of tasks by SQL, in transactions of an application with its own user and its own table."""
		self.postgres.sql("""create role app login;
			grant usage on schema reeve to app;
			grant execute on function reeve.submit to app;
			create table public.fault_orders (name text primary key, task_id bigint);
			grant insert, select on public.fault_orders to app, reeve""")
		submitter = Process(self, name)
		submitter.launch([sys.executable, f"{HERE}/fault_sql.py", "--database", self.postgres.conninfo.replace("user=reeve", "user=app"),
			"--ledger", self.ledgers, "--name", name, *options])
		self.submitters[name] = submitter

	def keep_schedules(self, name, *options):
		process = Process(self, name)
		process.launch([sys.executable, f"{HERE}/fault_schedules.py", "--bin", self.bin, "--managers",
			",".join(m.url for m in self.managers.values()), "--ledger", self.ledgers, "--name", name, *options])
		self.submitters[name] = process
		log = f"{self.folder}/log/{name}.log"
		self.await_(lambda: "added" in open(log, encoding="utf-8").read(), 60, "the schedules to be added")

	def submit_one(self, name, kind):
		done = subprocess.run([f"{self.bin}/fault-submitter", "--managers", ",".join(m.url for m in self.managers.values()), "--ledger",
			self.ledgers, "--name", name, "--count", "1", "--mix", f"{kind}=1", "--types", "fault-function=1", "--threads", "1", "--cancel",
			"0", "--keyed", "0", "--again", "0", "--look", "0"], capture_output=True, text=True, check=False,
			env={**os.environ, **self.environment}, timeout=60)
		if done.returncode != 0:
			raise Failure(f"the task {name}-1 could not be submitted: {done.stdout}{done.stderr}")

	def everything(self):
		last = [self.postgres, self.receiver] + ([self.host] if self.host else [])
		return [*self.helpers, *self.submitters.values(), *self.workers.values(), *self.managers.values(), *self.proxies.values(), *last[::-1]]

	def kill_all(self):
		for process in self.everything():
			if process is self.postgres:
				process.signal(signal.SIGQUIT)
			else:
				process.kill()

	def sanitizer_reports(self):
		return sorted(glob.glob(f"{self.reports}/*"))
