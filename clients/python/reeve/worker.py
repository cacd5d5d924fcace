"""A worker: runs Python functions as handlers of tasks.

One lock guards its state. Threads: `run` fetches, one sends heartbeats and watches the lease, one reports results, and each
running handler has one. A thread cannot be killed. So if a handler still runs when the lease or its attempt ends, the process
exits: another worker may run the task from then on."""

import os
import signal
import socket
import threading
import time
import traceback

from .client import BYTES_PER_SECOND, TRANSIENT, Error, encode, result_text
from .news import INTERVAL, clean
from .task import Fatal, Retry, Task

FAULTS = ("internal", "unknown")  # of a manager, or of a proxy before it: they do not say that a later call is refused, too
AGAIN = TRANSIENT + FAULTS + ("failed_precondition",)  # errors after which a later call may succeed
EXIT_LEASE_ENDED = 75
EXIT_MARGIN = 0.15  # seconds before the lease's end at which the process ends
MARGIN = 0.2  # of the lease, for handlers to stop before its end; then none begins
FETCH_WAIT = 5.0
REPORT_TIMEOUT = 30.0
REPORT_LAST = 10.0  # how long to wait for managers at the end
CALL_MAX = 100  # results or attempts in a call, and their bytes: managers limit the size of a message
CALL_BYTES = 2 << 20
CALL_REST = 8192  # of a message, beside these
HELD_BYTES = 64 << 20  # of results that no manager has acknowledged: more tasks are not fetched
ERROR_BYTES = 4096  # of an error, as of a program's; managers refuse results with much longer ones
TRACE_BYTES = 65536


def portion(items, limit):
    """The first of some dicts for a call: as many as it may have, but at least one."""
    count = size = 0
    for item in items[:CALL_MAX]:
        size += len(encode(item)) + 1
        if count and size > limit:
            break
        count += 1
    return items[:count]


def key_of(result):
    return result["task_id"], result["token"]


def text_of(error):
    try:
        return clean(error, ERROR_BYTES)
    except Exception:  # pylint: disable=broad-except
        return ""  # its __str__ fails


def tell_error(text):
    """Writes a line to standard error, if that is possible within a moment."""
    try:
        writer = threading.Thread(target=os.write, args=(2, f"reeve: {text}\n".encode()), daemon=True)
        writer.start()
        writer.join(0.1)
    except RuntimeError:
        pass  # no thread can be started


def end_process(text):
    """Ends the process now. Other threads may hold any lock, and nobody may read its standard error."""
    try:
        tell_error(text)
    finally:
        os._exit(EXIT_LEASE_ENDED)


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
        self._give_up_at = None
        self._crowded_until = 0.0  # until then it begins no task: no thread could be started

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
        numbers = (signal.SIGTERM, signal.SIGINT) if stop_on_signals else ()
        former = [(number, signal.signal(number, lambda *_: self.stop())) for number in numbers]
        try:
            self._run()
        finally:
            for number, handler in former:
                if handler is not None:  # it was set from Python
                    signal.signal(number, handler)

    def _run(self):
        if not self._register(0):
            return
        steps = self._beat, self._report, self._tell
        threads = [threading.Thread(target=self._guard, args=(step,), daemon=True) for step in steps]
        for thread in threads:
            thread.start()
        while not self._finished():
            self._guard(self._fetch)
        with self._changed:
            self._over = True
            self._changed.notify_all()
        for thread in threads:
            thread.join(1 if self._error else None)
        if self._error:
            raise self._error
        try:
            self.client.call("WorkerService/Leave", {"incarnation": self._incarnation, "reason": "stopped"}, timeout=10)
        except Error as error:
            tell_error(f"the worker cannot leave: {error}")

    def _guard(self, step):
        """What goes wrong in a thread ends the worker: a part of it is worse than none."""
        try:
            step()
        except Exception as error:  # pylint: disable=broad-except
            self._fail(error)

    # --- the incarnation ---

    def _register(self, previous):
        """Returns whether it has: a worker that is stopped before gives up."""
        request = {
            "name": self.name,
            "host": socket.gethostname(),
            "pid": os.getpid(),
            "concurrency": max(self.concurrency, 1),
            "queues": self.queues,
            "types": list(self.handlers),
            "previous": previous,
        }
        said = False
        while True:
            try:
                message_bytes = self.client.call("AdminService/Ping", timeout=5)["maxMessageBytes"]
                sent = time.monotonic()
                answer = self.client.call("WorkerService/Register", request, timeout=5)
                break
            except Error as error:
                if error.code not in TRANSIENT + FAULTS + ("already_exists",):
                    raise
                if not said:  # a former process with this name counts as alive until its lease has ended
                    tell_error(f"the worker cannot register yet: {error}")
            said = True
            if self._finished():
                return False
            time.sleep(1)
        with self._changed:
            self._incarnation = int(answer["incarnation"])
            self._lost = False  # until here, further heartbeats of the former incarnation may have said that it is lost
            self._lease = answer["leaseMs"] / 1000
            self._interval = answer["heartbeatMs"] / 1000
            self._lease_end = sent + self._lease
            self._max_result = answer["maxResultBytes"]
            self._max_call = message_bytes - CALL_REST
            self._fetch_id = self._seq = 0
        return True

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
        try:
            next_beat = time.monotonic()
            while not self._over:
                now = time.monotonic()
                if now >= next_beat:
                    next_beat = now + (min(self._interval, 1) if self._paused else self._interval)
                    self._start_beat()
                with self._changed:
                    self._watch()
                    self._changed.wait(0.05)
        except BaseException:  # pylint: disable=broad-except
            end_process(traceback.format_exc())  # or handlers would run without a lease

    def _start_beat(self):
        try:
            threading.Thread(target=self._beat_once, daemon=True).start()
        except RuntimeError:
            pass  # there are too many threads; the next one follows

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
                "concurrency": self.concurrency,
                "no_slots": not self.concurrency,
                "completed": self._completed,
                "failed": self._failed,
            }

    def _beat_once(self):
        request, sent = self._snapshot(), time.monotonic()
        try:
            answer = self.client.call("WorkerService/Heartbeat", request, timeout=self._interval)
        except Error:
            return  # the next one follows; without any, the lease ends
        with self._changed:
            if request["incarnation"] != self._incarnation or self._over:
                return
            if answer.get("lost"):
                self._lost = True
                for task in self._tasks.values():
                    task._stop("lease")
                self._changed.notify_all()
                return
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
            if now >= end - min(EXIT_MARGIN, self._lease / 12):
                end_process(f"task {task.id} still runs at the end of its lease or attempt: exiting")

    def _may_begin(self):
        return time.monotonic() < self._lease_end - MARGIN * self._lease

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
                if task._abandoned and task._result:
                    del self._tasks[key]
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
        """Whether it drains and holds nothing more, or managers do not take the last results."""
        with self._changed:
            if not self._draining or self._running:
                return False
            now, size = time.monotonic(), sum(task._bytes for task in self._tasks.values())
            self._give_up_at = self._give_up_at or now + REPORT_LAST + size / BYTES_PER_SECOND
            if self._tasks and now >= self._give_up_at:
                self._fail(Error("unavailable", f"{len(self._tasks)} results could not be reported; their tasks will run again"))
                self._tasks.clear()
            return not self._tasks

    def _slots(self):
        """How many tasks it can begin. Call it with the lock."""
        if self._draining or self._paused or not self._may_begin() or time.monotonic() < self._crowded_until:
            return 0
        if sum(task._bytes for task in self._tasks.values()) > HELD_BYTES:
            return 0
        return self.concurrency - self._running

    def _fetch(self):
        if self._lost and not self._error:
            self._replace_incarnation()
        with self._changed:
            slots = self._slots()
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
                "wait_ms": int(1000 * FETCH_WAIT),
            }
            sent = time.monotonic()
        answer = self._fetch_answer(request)
        with self._changed:
            counted_from = sent + float(answer.get("parkedMs", 0)) / 1000
            current = int(answer.get("incarnation", 0)) == self._incarnation
            for assignment in answer.get("assignments", []) if current else ():
                self._begin(Task(assignment, counted_from))
            self._waiting_fetch = None
            self._obey(answer.get("commands", []) if current else [], False)

    def _fetch_answer(self, request):
        """Sends a Fetch until it is answered: a manager may have assigned tasks to it."""
        while True:
            again = lambda left: {"resend": True, "wait_ms": int(1000 * min(FETCH_WAIT, max(left - 2, 0)))}
            try:
                return self.client.call("WorkerService/Fetch", request, timeout=FETCH_WAIT + 3, again=again)
            except Error as error:
                self._lost |= error.code == "failed_precondition"
                if error.code not in AGAIN:
                    self._fail(error)
                if error.code in FAULTS:
                    tell_error(f"the worker cannot fetch tasks, and tries again: {error}")
                    time.sleep(1)
            if self._lost or self._draining:
                return {}
            request["resend"] = True

    def _fail(self, error):
        """Ends the worker, as a drain does, since its calls are refused: `run` raises the error."""
        with self._changed:
            self._error = self._error or error
            self._draining = True
            self._changed.notify_all()

    def _begin(self, task):
        """Starts the handler of a task, or returns the task if it came too late. Call it with the lock."""
        self._tasks[task._key()] = task
        if self._draining or not self._may_begin() or time.monotonic() >= task._lost_at - 1:
            self._set_result(task, {"outcome": "OUTCOME_RETURNED"})
            return
        task._timeout_at = time.monotonic() + task._timeout if task._timeout else None
        try:
            threading.Thread(target=self._execute, args=(task,), daemon=True).start()
            self._running += 1
        except RuntimeError:  # there are too many threads
            self._crowded_until = time.monotonic() + 1
            self._set_result(task, {"outcome": "OUTCOME_RETURNED"})

    def _execute(self, task):
        begin = time.monotonic()
        result = {"outcome": "COMPLETED"}
        try:
            value = self.handlers[task.type](task)
            result["result"] = result_text(value)
        except Fatal as error:
            result.update(outcome="FATAL", error=text_of(error))
        except Retry as error:
            result.update(outcome="FAILED", error=text_of(error), retry_in_ms=error._delay_ms)
        except BaseException as error:  # pylint: disable=broad-except
            name = type(error).__name__
            result.update(outcome="FAILED", error=text_of(error) or name, error_code=clean(name, 255),
                          stack_trace=clean(traceback.format_exc(), TRACE_BYTES))
        with self._changed:
            if task._why == "timeout" and result.pop("result", None) is not None:
                result.update(outcome="FAILED", error="the handler has returned after its timeout")
            if task._why and result["outcome"] != "COMPLETED":
                outcome = {"cancelled": "CANCELLED", "timeout": "FAILED", "lease": "LEASE_ENDED", "returned": "RETURNED"}
                result["outcome"] = outcome[task._why]
                if task._why == "timeout":
                    result["error_code"] = "timeout"
            result.update(task._news.rest(), run_ms=int(1000 * (time.monotonic() - begin)))
            self._limit(result)
            self._completed += result["outcome"] == "COMPLETED"
            self._failed += result["outcome"] in ("FAILED", "FATAL")
            self._set_result(task, dict(result, outcome="OUTCOME_" + result["outcome"]))
            self._running -= 1
            if task._abandoned:
                del self._tasks[task._key()]

    def _limit(self, result):
        """Makes a result that is longer than managers take a failure."""
        length = len(result.get("result", "").encode(errors="replace"))
        if length > self._max_result or (length and len(encode(result)) > self._max_call):
            del result["result"]
            problem = f"the result of {length} bytes is longer than the manager accepts ({self._max_result} bytes)"
            result.update(outcome="FATAL", error=problem, error_code="result-too-long")

    def _set_result(self, task, result):
        task._result = dict(result, **task._name())
        task._bytes = len(encode(task._result))
        self._changed.notify_all()

    def _tell(self):
        """Sends what running handlers report."""
        while not self._over:
            with self._changed:
                tasks = [task for task in self._tasks.values() if task._result is None]
            news = [(task, dict(message, **task._name())) for task in tasks if (message := task._news.message())]
            while news:
                attempts = portion([message for _, message in news], self._call_bytes())
                try:
                    request = {"incarnation": self._incarnation, "attempts": attempts}
                    answer = self.client.call("WorkerService/Progress", request, timeout=5)
                    for (task, message), ack in zip(news, answer.get("acks", [])):
                        if ack["status"] != "RESULT_STATUS_LATER":
                            task._news.acknowledged(message)
                except Error:
                    pass  # the next message has it, or the result
                del news[: len(attempts)]
            time.sleep(INTERVAL / 4)

    def _call_bytes(self):
        return min(self._max_call, CALL_BYTES)

    def _report(self):
        pause = 0.02
        while True:
            with self._changed:
                results = portion([task._result for task in self._tasks.values() if task._result], self._call_bytes())
                if not results and self._over:
                    return
                if not results:
                    self._changed.wait(0.5)
                    continue
            if not self._report_once(results):
                pause = 0.02
                continue
            pause = min(2 * pause, 1.0)
            time.sleep(pause)

    def _report_once(self, results):
        """Returns whether some of these must be reported again: after all others. One that a manager finds invalid is replaced by a
        fatal error."""
        try:
            request = {"incarnation": self._incarnation, "results": results}
            answer = self.client.call("WorkerService/Report", request, timeout=REPORT_TIMEOUT)
        except Error as error:
            if error.code == "invalid_argument" and len(results) > 1:
                return any([self._report_once([result]) for result in results])
            if error.code in FAULTS:
                tell_error(f"a report of {len(results)} results failed, and is tried again: {error}")
            with self._changed:
                if error.code not in AGAIN + ("invalid_argument",):
                    self._fail(error)
                for result in results:
                    task = self._tasks.pop(key_of(result), None)
                    if task and error.code == "invalid_argument":
                        self._set_result(task, {"outcome": "OUTCOME_FATAL", "error": f"the result was refused: {error.message}"})
                    if task and error.code in AGAIN + ("invalid_argument",):
                        self._tasks[key_of(result)] = task
            return True
        later = False
        with self._changed:
            for ack in answer.get("acks", []):
                key = int(ack["taskId"]), int(ack["token"])
                task = self._tasks.pop(key, None)
                if task and ack["status"] == "RESULT_STATUS_LATER":
                    self._tasks[key] = task
                    later = True
            self._changed.notify_all()
        return later
