#!/usr/bin/python3
"""A worker with gRPC's own library. It reverses the lines of texts: reeve submit reverse hello --wait

    ./generate && REEVE_GRPC=127.0.0.1:7172 ./worker.py

REEVE_GRPC names one manager or several, with commas. REEVE_ACCESS_TOKEN or REEVE_ACCESS_TOKEN_FILE has the access token.

One handler runs at a time, on the main thread. A second thread keeps the lease, a third sends what the handler reports.
If the handler still runs when the lease or its attempt ends, the process ends: another worker may run the task from
then on. Let a supervisor restart it."""
import base64
import os
import signal
import socket
import sys
import threading
import time
import traceback

sys.path.insert(0, os.environ.get("GENERATED", os.path.join(os.path.dirname(os.path.abspath(__file__)), "generated")))
import grpc
from reeve.v1 import worker_pb2 as pb

BEGIN = time.monotonic()
BINARY = "data:application/octet-stream;base64,"
LINES, LINES_BYTES = 1000, 32 << 10  # of the log: what a call has at most
TEXT_BYTES = 4096  # of an error or a line
WAIT = 5.0  # seconds that a manager may park a Fetch
CODE = grpc.StatusCode
# After these the same call may succeed later. A file's token that is refused may be replaced.
TRANSIENT = (CODE.UNAVAILABLE, CODE.RESOURCE_EXHAUSTED, CODE.ABORTED, CODE.DEADLINE_EXCEEDED)
AGAIN = TRANSIENT + ((CODE.UNAUTHENTICATED,) if os.environ.get("REEVE_ACCESS_TOKEN_FILE") else ())
CHANNEL = [("grpc.max_receive_message_length", -1)] + [
    (f"grpc.{which}_reconnect_backoff_ms", 500) for which in ("initial", "min", "max")
]


def clean(text, most=TEXT_BYTES):
    """A text that any message may have."""
    return text.encode(errors="replace").replace(b"\0", b"?")[:most].decode(errors="ignore")


def result_text(value):
    """Text is a result as it is, unless it has a NUL or looks like other bytes."""
    if value is None:
        return ""
    if isinstance(value, str) and "\0" not in value and not value.startswith(BINARY):
        return value
    return BINARY + base64.b64encode(value.encode() if isinstance(value, str) else value).decode()


class Managers:
    """The methods of WorkerService, at any of the managers."""

    def __init__(self, addresses):
        self.channels = [grpc.insecure_channel(address.strip(), CHANNEL) for address in addresses.split(",")]
        self.current = 0

    def call(self, name, request, timeout=30.0, wait=0.0, again=AGAIN):
        """Returns the answer, and when the call was sent. It is made again until the timeout if it may succeed then. With
        several managers each has a share of that time, in addition to `wait`; the next call begins at the one that answered."""
        end = time.monotonic() + timeout
        while True:
            current, sent = self.current, time.monotonic()
            share = wait + (timeout - wait) / len(self.channels)
            try:
                return self.method(current, name)(request, timeout=max(min(share, end - sent), 0.1), metadata=self.metadata()), sent
            except grpc.RpcError as error:
                if error.code() in (CODE.UNAVAILABLE, CODE.DEADLINE_EXCEEDED) and self.current == current:
                    self.current = (current + 1) % len(self.channels)  # unless another thread has done so
                if error.code() not in again or time.monotonic() + 0.2 > end:
                    raise
            if name == "Fetch":
                request.resend = True
            time.sleep(0.2)

    def method(self, index, name):
        return self.channels[index].unary_unary(
            f"/reeve.v1.WorkerService/{name}",
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=getattr(pb, name + "Response").FromString,
        )

    def metadata(self):
        token, file = os.environ.get("REEVE_ACCESS_TOKEN"), os.environ.get("REEVE_ACCESS_TOKEN_FILE")
        if not token and file:
            with open(file, encoding="ascii") as lines:  # again each time, since it may be replaced
                token = lines.read().strip()
        return [("authorization", f"Bearer {token}")] if token else []


class Attempt:
    """A task that was received. Its handler calls it to report: report(40, "page 2 of 5") or report(40). It returns soon
    after report.stopped is set."""

    STOPPED = {
        "cancelled": (pb.OUTCOME_CANCELLED, "stopped: cancelled"),
        "timeout": (pb.OUTCOME_FAILED, "the handler has exceeded its timeout"),
        "lease": (pb.OUTCOME_LEASE_ENDED, "stopped: lease ended"),
        "returned": (pb.OUTCOME_RETURNED, "the worker stops"),
    }

    def __init__(self, task, counted_from):
        self.task = task
        self.end = counted_from + task.expires_in_ms / 1000
        self.timeout_at = float("inf")
        self.running = self.abandoned = False
        self.stopped, self.why = threading.Event(), None
        self.lock = threading.Lock()
        self.news = pb.AttemptProgress(task_id=task.task_id, token=task.token, first_line=1)

    def stop(self, why):
        self.why = self.why or why
        self.stopped.set()

    def __call__(self, percent, line=None):
        if not 0 <= percent <= 100:
            raise ValueError(f"progress is from 0 to 100, not {percent}")
        with self.lock:
            self.news.progress = percent
            if line is not None:
                self.news.lines.add(text=clean(line))
            while len(self.news.lines) > LINES or self.news.ByteSize() > LINES_BYTES:
                self.drop(1)

    def drop(self, count):
        if count > 0:
            del self.news.lines[:count]
            self.news.first_line += count

    def copy(self):
        with self.lock:
            copy = pb.AttemptProgress()
            copy.CopyFrom(self.news)
            return copy

    def acknowledged(self, sent):
        with self.lock:
            self.drop(sent.first_line + len(sent.lines) - self.news.first_line)
            if self.news.progress == sent.progress:
                self.news.ClearField("progress")

    def run(self, handler, max_result):
        """Runs the handler, unless the attempt was stopped before, and returns the result."""
        task, result = self.task, pb.Result(task_id=self.task.task_id, token=self.task.token)
        begin = time.monotonic()
        self.timeout_at = min(begin + task.timeout_ms / 1000, self.end - 1)
        try:
            if not self.why:
                self.running = True
                result.result = result_text(handler(task.details, self))
                result.outcome = pb.OUTCOME_COMPLETED
        except Exception as error:  # pylint: disable=broad-except
            result.outcome = pb.OUTCOME_FAILED
            result.error = clean("".join(traceback.format_exception_only(type(error), error)).strip())
        self.running = False
        if self.why and (result.outcome != pb.OUTCOME_COMPLETED or self.why == "timeout"):
            result.outcome, result.error = self.STOPPED[self.why]
            result.error_code = self.why
        elif result.outcome == pb.OUTCOME_COMPLETED and len(result.result.encode()) > max_result:
            result.outcome, result.error_code = pb.OUTCOME_FATAL, "result-too-long"
            result.error = f"the result is longer than {max_result} bytes"
        if result.outcome != pb.OUTCOME_COMPLETED:
            result.ClearField("result")
        left = self.copy()
        result.first_line, result.run_ms = left.first_line, int(1000 * (time.monotonic() - begin))
        result.lines.extend(left.lines)
        if left.HasField("progress"):
            result.progress = left.progress
        return result


class Worker:
    def __init__(self, managers, name, handlers):
        self.managers, self.handlers = managers, handlers
        self.lock = threading.Lock()  # of what a heartbeat tells
        self.draining = self.paused = self.lost = False
        self.changed = False  # the next heartbeat goes soon
        self.slots = 1  # 0 by a command
        self.attempt = None  # what was received, and whose result is not acknowledged
        self.fetch_id = self.seq = self.waiting = self.incarnation = self.completed = self.failed = 0
        self.begun = False
        self.resting = {}  # until when the slot takes no task of a queue
        self.request = pb.RegisterRequest(
            name=name, host=socket.gethostname(), pid=os.getpid(), concurrency=1, types=list(handlers)
        )
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: setattr(self, "draining", True))

    def register(self):
        """Returns whether there is an incarnation; not if the worker must stop before."""
        told = False
        while not self.draining:
            try:
                answer, sent = self.managers.call("Register", self.request, 5, again=())
                break
            except grpc.RpcError as error:  # ALREADY_EXISTS: a former process's lease may still run
                if error.code() not in (CODE.ALREADY_EXISTS,) + TRANSIENT:
                    raise
                if not told:
                    print(f"cannot register yet: {error.details()}", file=sys.stderr, flush=True)
                told = True
            time.sleep(1)
        else:
            return False
        with self.lock:
            self.incarnation = self.request.previous = answer.incarnation
            self.lease, self.interval = answer.lease_ms / 1000, answer.heartbeat_ms / 1000
            self.max_result = answer.max_result_bytes
            self.lease_end = sent + self.lease
            self.fetch_id = self.seq = self.waiting = 0
            self.lost = False
        return True

    def may_begin(self):
        return time.monotonic() < self.lease_end - self.lease / 4

    def watch(self):
        attempt, now = self.attempt, time.monotonic()
        if not attempt or not attempt.running:
            return
        if now >= min(self.lease_end, attempt.end) - 0.1:
            os._exit(75)  # the handler has not ended in time
        if now >= attempt.timeout_at:
            attempt.stop("timeout")
        if not self.may_begin():
            attempt.stop("lease")

    def keep_lease(self):
        try:
            while True:
                sent = time.monotonic()
                threading.Thread(target=self.beat, args=(self.snapshot(), sent), daemon=True).start()
                while time.monotonic() < sent + (min(self.interval, 1) if self.changed or self.paused else self.interval):
                    self.watch()
                    time.sleep(0.05)
        finally:
            os._exit(70)  # without heartbeats nothing may run

    def snapshot(self):
        with self.lock:
            self.seq += 1
            self.changed = False
            attempt = self.attempt
            return pb.HeartbeatRequest(
                incarnation=self.incarnation, seq=self.seq, highest_fetch_id=self.fetch_id,
                waiting_fetch_ids=[self.waiting] if self.waiting else [],
                in_flight=[pb.Attempt(task_id=attempt.task.task_id, token=attempt.task.token)] if attempt else [],
                running=int(bool(attempt and attempt.running)), concurrency=self.slots, no_slots=not self.slots,
                completed=self.completed, failed=self.failed,
                mode=pb.WORKER_MODE_DRAINING if self.draining else
                pb.WORKER_MODE_PAUSED if self.paused else pb.WORKER_MODE_RUNNING,
            )

    def beat(self, request, sent):
        try:  # ABORTED: a later one has arrived
            answer, _ = self.managers.call("Heartbeat", request, self.interval, again=(CODE.UNAVAILABLE, CODE.DEADLINE_EXCEEDED))
        except grpc.RpcError:
            return  # the next one follows; without any, the lease ends
        with self.lock:
            if request.incarnation != self.incarnation:
                return
            if not answer.lost:
                self.lease_end = max(self.lease_end, sent + self.lease)
                self.obey(answer.commands, all_in_effect=True)
            elif not self.lost:
                self.lost = True
                self.lease_end = min(self.lease_end, time.monotonic() + 1)
                if self.attempt:
                    self.attempt.stop("lease")

    def obey(self, commands, all_in_effect):
        before = self.draining, self.paused, self.slots
        kinds = [command.kind for command in commands]
        if all_in_effect or pb.WORKER_COMMAND_KIND_RESUME in kinds:
            self.paused = False
        for command in commands:
            attempt = self.attempt
            named = attempt and (attempt.task.task_id, attempt.task.token) == (command.task_id, command.token)
            if command.kind == pb.WORKER_COMMAND_KIND_PAUSE:
                self.paused = True
            elif command.kind == pb.WORKER_COMMAND_KIND_CONCURRENCY:
                self.slots = min(command.value, 1)
            elif command.kind in (pb.WORKER_COMMAND_KIND_DRAIN, pb.WORKER_COMMAND_KIND_STOP):
                self.draining = True
                if attempt and command.kind == pb.WORKER_COMMAND_KIND_STOP:
                    attempt.stop("returned")
            elif named and command.kind == pb.WORKER_COMMAND_KIND_CANCEL:
                attempt.stop("cancelled")
            elif named and command.kind == pb.WORKER_COMMAND_KIND_ABANDON:
                attempt.abandoned = True
                attempt.stop("lease")
        self.changed = self.changed or before != (self.draining, self.paused, self.slots)

    def tell(self):
        while True:
            time.sleep(1)
            attempt = self.attempt
            news = attempt and attempt.running and attempt.copy()
            if not news or not (news.lines or news.HasField("progress")):
                continue
            try:
                answer, _ = self.managers.call("Progress", pb.ProgressRequest(incarnation=self.incarnation, attempts=[news]), 5)
                if answer.acks[0].status != pb.RESULT_STATUS_LATER:
                    attempt.acknowledged(news)
            except grpc.RpcError:
                pass  # the next call has it, or the result

    def run(self):
        if not self.register():
            return
        threading.Thread(target=self.keep_lease, daemon=True).start()
        threading.Thread(target=self.tell, daemon=True).start()
        while not self.draining and (not self.lost or self.register()):
            if self.paused or not self.slots or not self.may_begin():
                time.sleep(0.05)
                continue
            for attempt in self.fetch():
                self.report(self.execute(attempt))
                with self.lock:
                    self.attempt = None
                self.resting[attempt.task.queue] = time.monotonic() + attempt.task.resting_ms / 1000
        try:
            self.managers.call("Leave", pb.LeaveRequest(incarnation=self.incarnation, reason="stopped"), 5)
        except grpc.RpcError:
            pass  # then its lease ends

    def fetch(self):
        """Returns the attempts that a Fetch brings: one at most. It is made until it is answered, or the worker must stop."""
        now = time.monotonic()
        self.resting = {queue: until for queue, until in self.resting.items() if until > now}
        wait = min([WAIT] + [until - now for until in self.resting.values()])
        with self.lock:
            self.fetch_id += 1
            self.waiting = self.fetch_id
        request = pb.FetchRequest(
            incarnation=self.incarnation, fetch_id=self.fetch_id, slots=1, types=list(self.handlers),
            wait_ms=int(1000 * wait), idle_since_start_ms=0 if self.begun else int(1000 * (now - BEGIN)) + 1,
            queue_slots=[pb.QueueSlots(queue=queue, slots=0) for queue in list(self.resting)[:1000]],
        )
        answer = pb.FetchResponse()
        while not self.lost:
            last = self.draining
            if last:
                request.wait_ms = wait = 0
            try:
                answer, sent = self.managers.call("Fetch", request, wait + 5, wait)
                break
            except grpc.RpcError as error:
                if error.code() == CODE.FAILED_PRECONDITION:
                    self.lost = True
                elif error.code() not in AGAIN:
                    raise
            request.resend = True
            if last:
                break
        with self.lock:
            attempts = []
            if answer.incarnation == self.incarnation:
                attempts = [Attempt(task, sent + answer.parked_ms / 1000) for task in answer.assignments]
                self.attempt = attempts[0] if attempts else None
                self.obey(answer.commands, all_in_effect=False)
            self.waiting = 0
        return attempts

    def execute(self, attempt):
        # After an outage or a pause of this process: a heartbeat renews the lease, or tells that it is lost.
        while not self.may_begin() and not self.lost and not self.draining and time.monotonic() < attempt.end - 1:
            time.sleep(0.05)
        if self.lost:
            attempt.stop("lease")
        elif self.draining or not self.may_begin() or time.monotonic() >= attempt.end - 1:
            attempt.stop("returned")
        else:
            self.begun = True
        result = attempt.run(self.handlers[attempt.task.type], self.max_result)
        self.completed += result.outcome == pb.OUTCOME_COMPLETED
        self.failed += result.outcome in (pb.OUTCOME_FAILED, pb.OUTCOME_FATAL)
        self.changed = True
        return result

    def report(self, result):
        pause, replaced = 0.02, False
        while not self.attempt.abandoned:
            try:
                answer, _ = self.managers.call("Report", pb.ReportRequest(incarnation=self.incarnation, results=[result]), 60)
                if answer.acks[0].status != pb.RESULT_STATUS_LATER:
                    return
            except grpc.RpcError as error:
                if error.code() == CODE.INVALID_ARGUMENT and not replaced:
                    replaced, problem = True, clean(f"the result was refused: {error.details()}")
                    result = pb.Result(task_id=result.task_id, token=result.token, outcome=pb.OUTCOME_FATAL, error=problem)
                elif error.code() not in AGAIN:
                    raise
            time.sleep(pause)
            pause = min(2 * pause, 1)


def reverse(text, report):
    lines = text.split("\n")
    for i, line in enumerate(lines):
        lines[i] = line[::-1]
        report(100 * (i + 1) / len(lines), f"line {i + 1}")
    return "\n".join(lines)


def run(handlers):
    name = os.environ.get("REEVE_WORKER", f"{socket.gethostname()}/{os.getpid()}")
    Worker(Managers(os.environ.get("REEVE_GRPC", "127.0.0.1:7172")), name, handlers).run()


if __name__ == "__main__":
    run({"reverse": reverse})
