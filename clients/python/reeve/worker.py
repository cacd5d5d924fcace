"""A worker: runs Python functions as handlers of tasks.

One lock guards its state. Threads: `run` fetches, one sends heartbeats and watches the lease, one reports results, and each
running handler has one. A thread cannot be killed. So if a handler still runs when the lease or its attempt ends, the process
exits: another worker may run the task from then on."""

import json
import os
import signal
import socket
import sys
import threading
import time
import traceback

from .client import TRANSIENT, Error, result_text
from .news import INTERVAL, News, clean

AGAIN = TRANSIENT + ("deadline_exceeded", "failed_precondition")  # errors after which a later call may succeed
EXIT_LEASE_ENDED = 75
MARGIN = 0.2  # of the lease, for handlers to stop before its end
CALL_MAX = 100  # results or attempts in a call, and their bytes: managers limit the size of a message
CALL_BYTES = 2 << 20
ERROR_BYTES = 4096  # of an error, as of a program's; managers refuse results with much longer ones
TRACE_BYTES = 65536


def portion(items):
    """The first of some dicts for a call: as many as it may have, but at least one."""
    count = size = 0
    for item in items[:CALL_MAX]:
        size += len(json.dumps(item))
        if count and size > CALL_BYTES:
            break
        count += 1
    return items[:count]


class Fatal(Exception):
    """Raise it in a handler: the task has failed and must not run again."""


class Retry(Exception):
    """Raise it in a handler: the task has failed and runs again, after `delay` seconds if given."""

    def __init__(self, message, delay=None):
        super().__init__(message)
        self.delay = delay
        self._delay_ms = 0 if delay is None else max(int(1000 * delay), 1)  # 0: by the task's policy


class Task:
    """One attempt. `stopped` is an event: a long handler checks it, and returns soon once it is set."""

    def __init__(self, assignment, counted_from):
        self.id = int(assignment["taskId"])
        self.token = int(assignment["token"])
        self.queue = assignment.get("queue", "")
        self.type = assignment.get("type", "")
        self.details = assignment.get("details", "")
        self.attempt = assignment.get("attempt", 0)
        self.max_attempts = assignment.get("maxAttempts", 0)
        self.traceparent = assignment.get("traceparent", "")
        self.stopped = threading.Event()
        self._news = News()
        self._why = None  # it must stop: "cancelled", "timeout", "lease", "returned"
        self._result = None
        self._abandoned = False
        self._timeout = float(assignment["timeoutMs"]) / 1000 if "timeoutMs" in assignment else None
        self._timeout_at = None
        self._lost_at = counted_from + float(assignment.get("expiresInMs", 0)) / 1000

    def json(self):
        """Returns the details, which are JSON."""
        return json.loads(self.details)

    def progress(self, percent, message=None):
        """Reports how far the handler is, from 0 to 100, and what it does. Managers get it within about a second."""
        self._news.progress(percent, message)

    def log(self, text):
        """Adds a line to the task's log, or several. Of a task the last 1,000 lines or 64 KiB are kept."""
        self._news.log(text)

    def _key(self):
        return self.id, self.token

    def _name(self):
        return {"task_id": self.id, "token": self.token}

    def _stop(self, why):
        self._why = self._why or why
        self.stopped.set()


class Worker:
    """Runs handlers: worker.handle("greet", lambda task: "hello " + task.details), then worker.run()."""

    def __init__(self, client, concurrency=1, name=None, queues=()):
        self.client = client
        self.concurrency = concurrency
        self.name = name or f"{socket.gethostname()}/{os.getpid()}"
        self.queues = [queues] if isinstance(queues, str) else list(queues)
        self.handlers = {}
        self._changed = threading.Condition()
        self._tasks = {}  # in flight: received, running, or with a result that no manager has acknowledged
        self._running = 0
        self._draining = self._paused = self._over = self._lost = False
        self._incarnation = 0
        self._fetch_id = 0
        self._waiting_fetch = None
        self._error = None
        self._seq = 0
        self._completed = self._failed = 0

    def handle(self, type, function):
        """Sets the handler of a type. It gets a Task and returns the result: a text, bytes, None, or a value that becomes JSON. Any
        exception is a failure, which is retried."""
        self.handlers[type] = function

    def stop(self):
        """Makes `run` return when the running handlers have ended. Any thread or signal handler may call it."""
        self._draining = True

    def run(self, stop_on_signals=True):
        """Runs until `stop`, SIGTERM or SIGINT, or a worker command that drains it. Raises Error if managers refuse its calls, for
        example after its token was revoked; its running handlers end before."""
        if not self.handlers:
            raise ValueError("the worker has no handlers: it would take tasks of all types")
        if stop_on_signals:
            for number in (signal.SIGTERM, signal.SIGINT):
                signal.signal(number, lambda *_: self.stop())
        self._register(0)
        threads = [threading.Thread(target=run, daemon=True) for run in (self._beat, self._report, self._tell)]
        for thread in threads:
            thread.start()
        while not self._finished():
            self._fetch()
        with self._changed:
            self._over = True
            self._changed.notify_all()
        for thread in threads:
            thread.join()
        if self._error:
            raise self._error
        self.client.call("WorkerService/Leave", {"incarnation": self._incarnation, "reason": "stopped"})

    # --- the incarnation ---

    def _register(self, previous):
        request = {
            "name": self.name,
            "host": socket.gethostname(),
            "pid": os.getpid(),
            "concurrency": self.concurrency,
            "queues": self.queues,
            "types": list(self.handlers),
            "previous": previous,
        }
        while True:
            try:
                answer = self.client.call("WorkerService/Register", request)
                break
            except Error as error:
                if error.code != "already_exists":
                    raise
            time.sleep(1)  # a former process with this name counts as alive until its lease has ended
        with self._changed:
            self._incarnation = int(answer["incarnation"])
            self._lost = False  # until here, further heartbeats of the former incarnation may have said that it is lost
            self._lease = answer["leaseMs"] / 1000
            self._interval = answer["heartbeatMs"] / 1000
            self._lease_end = time.monotonic() + self._lease
            self._fetch_id = self._seq = 0

    def _replace_incarnation(self):
        """The incarnation has ended. Its handlers must stop before the next one begins; their results are still reported."""
        with self._changed:
            for task in self._tasks.values():
                task._stop("lease")
            while self._running:
                self._changed.wait(0.05)
                self._watch()
            previous = self._incarnation
        self._register(previous)

    # --- the lease ---

    def _beat(self):
        next_beat = time.monotonic()
        while not self._over:
            now = time.monotonic()
            if now >= next_beat:
                next_beat = now + self._interval
                threading.Thread(target=self._beat_once, daemon=True).start()
            with self._changed:
                self._watch()
                self._changed.wait(0.05)

    def _snapshot(self):
        with self._changed:
            self._seq += 1
            mode = "DRAINING" if self._draining else "PAUSED" if self._paused else "RUNNING"
            return {
                "incarnation": self._incarnation,
                "seq": self._seq,
                "in_flight": [task._name() for task in self._tasks.values()],
                "highest_fetch_id": self._fetch_id,
                "waiting_fetch_ids": [self._waiting_fetch] if self._waiting_fetch else [],
                "running": self._running,
                "mode": f"WORKER_MODE_{mode}",
                "completed": self._completed,
                "failed": self._failed,
            }

    def _beat_once(self):
        request, sent = self._snapshot(), time.monotonic()
        try:
            answer = self.client.call("WorkerService/Heartbeat", request, timeout=self._interval, key=False)
        except Error:
            return  # the next one follows; without any, the lease ends
        with self._changed:
            if answer.get("lost"):
                self._lost |= request["incarnation"] == self._incarnation and not self._over
                return
            if request["incarnation"] == self._incarnation:
                self._lease_end = max(self._lease_end, sent + self._lease)
            self._obey(answer.get("commands", []), True)

    def _watch(self):
        """Stops handlers whose time is over; ends the process if one does not stop. Call it with the lock."""
        now = time.monotonic()
        for task in self._tasks.values():
            if task._result is not None:
                continue
            end = min(self._lease_end, task._lost_at)
            if now >= self._lease_end - MARGIN * self._lease:
                task._stop("lease")
            if task._timeout_at and now >= task._timeout_at:
                task._stop("timeout")
            if now >= end:
                print(f"reeve: task {task.id} still runs at the end of its lease or attempt: exiting", file=sys.stderr)
                sys.stderr.flush()
                os._exit(EXIT_LEASE_ENDED)

    def _obey(self, commands, all_in_effect):
        """Carries out commands. Call it with the lock."""
        kinds = [command["kind"].replace("WORKER_COMMAND_KIND_", "") for command in commands]
        if all_in_effect:
            self._paused = "PAUSE" in kinds
        for kind, command in zip(kinds, commands):
            key = int(command.get("taskId", 0)), int(command.get("token", 0))
            task = self._tasks.get(key)
            if kind in ("CANCEL", "ABANDON") and task:
                task._abandoned |= kind == "ABANDON"
                task._stop("cancelled")
            elif kind in ("DRAIN", "STOP"):
                self._draining = True
                for other in self._tasks.values() if kind == "STOP" else ():
                    other._stop("returned")
            elif kind in ("PAUSE", "RESUME"):
                self._paused = kind == "PAUSE"
            elif kind == "CONCURRENCY":
                self.concurrency = command.get("value", 0)
        self._changed.notify_all()

    # --- tasks ---

    def _finished(self):
        with self._changed:
            return self._draining and not self._tasks

    def _fetch(self):
        if self._lost:
            self._replace_incarnation()
        with self._changed:
            slots = 0 if self._draining or self._paused else self.concurrency - self._running
            if slots <= 0:
                self._changed.wait(0.1)
                return
            self._fetch_id += 1
            self._waiting_fetch = self._fetch_id
            request = {
                "incarnation": self._incarnation,
                "fetch_id": self._fetch_id,
                "slots": slots,
                "queues": self.queues,
                "types": list(self.handlers),
                "wait_ms": 5000,
            }
            sent = time.monotonic()
        try:
            answer = self.client.call("WorkerService/Fetch", request, timeout=8, key=False, again={"resend": True})
        except Error as error:
            answer = {}
            self._lost |= error.code == "failed_precondition"
            if error.code not in AGAIN:
                self._fail(error)
        with self._changed:
            counted_from = sent + float(answer.get("parkedMs", 0)) / 1000
            current = int(answer.get("incarnation", 0)) == self._incarnation
            for assignment in answer.get("assignments", []) if current else ():
                self._begin(Task(assignment, counted_from))
            self._waiting_fetch = None
            self._obey(answer.get("commands", []) if current else [], False)

    def _fail(self, error):
        """Ends the worker, as a drain does, since its calls are refused: `run` raises the error."""
        with self._changed:
            self._error = self._error or error
            self._draining = True
            self._changed.notify_all()

    def _begin(self, task):
        """Starts the handler of a task. Call it with the lock."""
        self._tasks[task._key()] = task
        self._running += 1
        task._timeout_at = time.monotonic() + task._timeout if task._timeout else None
        threading.Thread(target=self._execute, args=(task,), daemon=True).start()

    def _execute(self, task):
        begin = time.monotonic()
        result = {"outcome": "COMPLETED"}
        try:
            value = self.handlers[task.type](task)
            result["result"] = result_text(value)
        except Fatal as error:
            result.update(outcome="FATAL", error=clean(error, ERROR_BYTES))
        except Retry as error:
            result.update(outcome="FAILED", error=clean(error, ERROR_BYTES), retry_in_ms=error._delay_ms)
        except BaseException as error:  # pylint: disable=broad-except
            name = type(error).__name__
            result.update(outcome="FAILED", error=clean(error, ERROR_BYTES) or name, error_code=clean(name, 255),
                          stack_trace=clean(traceback.format_exc(), TRACE_BYTES))
        with self._changed:
            if task._why and result["outcome"] != "COMPLETED":
                outcome = {"cancelled": "CANCELLED", "timeout": "FAILED", "lease": "LEASE_ENDED", "returned": "RETURNED"}
                result["outcome"] = outcome[task._why]
                if task._why == "timeout":
                    result["error_code"] = "timeout"
            self._completed += result["outcome"] == "COMPLETED"
            self._failed += result["outcome"] in ("FAILED", "FATAL")
            result.update(task._news.rest(), **task._name())
            result.update(outcome="OUTCOME_" + result["outcome"], run_ms=int(1000 * (time.monotonic() - begin)))
            task._result = result
            self._running -= 1
            if task._abandoned:
                del self._tasks[task._key()]
            self._changed.notify_all()

    def _tell(self):
        """Sends what running handlers report."""
        while not self._over:
            with self._changed:
                tasks = [task for task in self._tasks.values() if task._result is None]
            news = [(task, dict(message, **task._name())) for task in tasks if (message := task._news.message())]
            while news:
                attempts = portion([message for _, message in news])
                try:
                    request = {"incarnation": self._incarnation, "attempts": attempts}
                    answer = self.client.call("WorkerService/Progress", request, timeout=5, key=False)
                    for (task, message), ack in zip(news, answer.get("acks", [])):
                        if ack["status"] != "RESULT_STATUS_LATER":
                            task._news.acknowledged(message)
                except Error:
                    pass  # the next message has it, or the result
                del news[: len(attempts)]
            time.sleep(INTERVAL / 4)

    def _report(self):
        pause = 0.02
        while True:
            with self._changed:
                results = portion([task._result for task in self._tasks.values() if task._result])
                if not results and self._over:
                    return
                if not results:
                    self._changed.wait(0.5)
                    continue
                incarnation = self._incarnation
            try:
                answer = self.client.call("WorkerService/Report", {"incarnation": incarnation, "results": results}, key=False)
            except Error as error:
                if error.code == "invalid_argument":
                    self._report_alone(results)
                elif error.code not in AGAIN:
                    self._fail(error)
                    with self._changed:
                        for result in results:
                            self._tasks.pop((result["task_id"], result["token"]), None)
                pause = min(2 * pause, 1.0)
                time.sleep(pause)
                continue
            later = 0
            with self._changed:
                for ack in answer.get("acks", []):
                    if ack["status"] == "RESULT_STATUS_LATER":
                        later += 1
                    else:
                        self._tasks.pop((int(ack["taskId"]), int(ack["token"])), None)
                self._changed.notify_all()
            pause = min(2 * pause, 1.0) if later else 0.02
            if later:
                time.sleep(pause)

    def _report_alone(self, results):
        """Reports results one by one. One that a manager finds invalid is replaced by a fatal error."""
        for result in results:
            try:
                self.client.call("WorkerService/Report", {"incarnation": self._incarnation, "results": [result]}, key=False)
            except Error as error:
                if error.code != "invalid_argument":
                    continue
                with self._changed:
                    task = self._tasks[result["task_id"], result["token"]]
                    problem = f"the result was refused: {error.message}"
                    task._result = dict(task._name(), outcome="OUTCOME_FATAL", error=problem)
