"""The processes of a run of faults: a private PostgreSQL, managers, proxies, workers, and a host that can be cut off.

Everything but type_in() runs in one thread; the loop of `run` waits for what takes time. All started processes end with
this process, however it ends.
"""

import glob
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time

from postgres import Postgres
from process import Failure, Process, free_port

HERE = os.path.dirname(os.path.abspath(__file__))
MANAGERS = ("one", "two", "three", "four")
MAX_CALLS, MAX_CONNECTIONS = 4000, 1000  # low, so that floods reach them


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
		# Tasks of many types are not to wait for slots.
		common = ["--manager", ",".join(self.managers), "--name", self.life, "--concurrency",
			"8" if self.kind == "exec" else "64" if self.types else "16"]
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
