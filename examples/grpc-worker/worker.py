#!/usr/bin/python3
"""A worker with gRPC's own library. It reverses the lines of texts: reeve submit reverse hello --wait

    ./generate && REEVE_GRPC=127.0.0.1:7172 ./worker.py

One handler runs at a time, on the main thread; a second thread keeps the lease, a third sends what the handler reports.
If the handler still runs when the lease or its attempt ends, the process ends: another worker may run the task from
then on. Let a supervisor restart it."""
import os
import signal
import socket
import sys
import threading
import time

sys.path.insert(0, os.environ.get("GENERATED", os.path.join(os.path.dirname(os.path.abspath(__file__)), "generated")))
import grpc
from reeve.v1 import worker_pb2 as pb

AGAIN = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.StatusCode.ABORTED, grpc.StatusCode.DEADLINE_EXCEEDED)


class Calls:
    """The methods of WorkerService. A call that may succeed later is made again, until its timeout."""

    def __init__(self, address, token):
        self.channel = grpc.insecure_channel(address)
        self.metadata = [("authorization", f"Bearer {token}")] if token else []

    def __getattr__(self, name):
        answer = getattr(pb, name + "Response")
        stub = self.channel.unary_unary(
            f"/reeve.v1.WorkerService/{name}",
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=answer.FromString,
        )

        def call(request, timeout=30.0):
            end = time.monotonic() + timeout
            while True:
                try:
                    return stub(request, timeout=max(end - time.monotonic(), 0.1), metadata=self.metadata)
                except grpc.RpcError as error:
                    if error.code() not in AGAIN or time.monotonic() + 0.2 > end:
                        raise
                if name == "Fetch":
                    request.resend = True
                time.sleep(0.2)

        return call


class Report:
    """What the handler of an attempt has reported and no manager has: report(40, "page 2 of 5") or report(40)."""

    def __init__(self, task):
        self.lock = threading.Lock()
        self.news = pb.AttemptProgress(task_id=task.task_id, token=task.token, first_line=1)

    def __call__(self, percent, line=None):
        with self.lock:
            self.news.progress = percent
            if line is not None:
                self.news.lines.add(text=line)
            self.drop(len(self.news.lines) - 1000)

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


class Worker:
    def __init__(self, calls, name, handlers):
        self.calls, self.handlers = calls, handlers
        self.draining = self.lost = False
        self.attempt = None  # (task_id, token) of what was received and is not acknowledged
        self.attempt_end = float("inf")
        self.report_of = None  # the running attempt's Report
        self.fetch_id = self.seq = self.waiting = 0
        self.request = pb.RegisterRequest(
            name=name, host=socket.gethostname(), pid=os.getpid(), concurrency=1, types=list(handlers)
        )
        self.register()
        signal.signal(signal.SIGTERM, lambda *_: setattr(self, "draining", True))
        threading.Thread(target=self.keep_lease, daemon=True).start()
        threading.Thread(target=self.tell, daemon=True).start()

    def register(self):
        while True:
            sent = time.monotonic()
            try:
                answer = self.calls.Register(self.request)
                break
            except grpc.RpcError as error:
                if error.code() != grpc.StatusCode.ALREADY_EXISTS:  # a former process's lease may still run
                    raise
            time.sleep(1)
        self.incarnation = self.request.previous = answer.incarnation
        self.lease, self.interval = answer.lease_ms / 1000, answer.heartbeat_ms / 1000
        self.lease_end = sent + self.lease
        self.fetch_id = self.seq = 0
        self.lost = False

    def keep_lease(self):
        while True:
            self.seq += 1
            sent, beat = time.monotonic(), pb.HeartbeatRequest(
                incarnation=self.incarnation, seq=self.seq, highest_fetch_id=self.fetch_id, running=int(bool(self.attempt)),
                waiting_fetch_ids=[self.waiting] if self.waiting else [],
                in_flight=[pb.Attempt(task_id=self.attempt[0], token=self.attempt[1])] if self.attempt else [],
                mode=pb.WORKER_MODE_DRAINING if self.draining else pb.WORKER_MODE_RUNNING,
            )
            threading.Thread(target=self.beat, args=(beat, sent), daemon=True).start()
            while time.monotonic() < sent + self.interval:
                if self.attempt and time.monotonic() >= min(self.lease_end, self.attempt_end):
                    os._exit(75)  # the handler has not ended in time
                time.sleep(0.05)

    def beat(self, request, sent):
        try:
            answer = self.calls.Heartbeat(request, self.interval)
        except grpc.RpcError:
            return  # the next one follows; without any, the lease ends
        if request.incarnation != self.incarnation:
            return
        if answer.lost:
            self.lost = True
        else:
            self.lease_end = max(self.lease_end, sent + self.lease)
            self.obey(answer.commands)

    def tell(self):
        while True:
            time.sleep(1)
            report = self.report_of
            news = report and report.copy()
            if not news or not (news.lines or news.HasField("progress")):
                continue
            try:
                answer = self.calls.Progress(pb.ProgressRequest(incarnation=self.incarnation, attempts=[news]), 5)
                if answer.acks[0].status != pb.RESULT_STATUS_LATER:
                    report.acknowledged(news)
            except grpc.RpcError:
                pass  # the next call has it, or the result

    def obey(self, commands):
        for command in commands:
            if command.kind in (pb.WORKER_COMMAND_KIND_DRAIN, pb.WORKER_COMMAND_KIND_STOP):
                self.draining = True

    def run(self):
        while not self.draining:
            if self.lost:
                self.register()
            self.fetch_id += 1
            self.waiting = self.fetch_id
            sent = time.monotonic()
            try:
                answer = self.calls.Fetch(
                    pb.FetchRequest(incarnation=self.incarnation, fetch_id=self.fetch_id, slots=1, types=list(self.handlers),
                                    wait_ms=5000), 10)
            except grpc.RpcError as error:
                if error.code() == grpc.StatusCode.FAILED_PRECONDITION:
                    self.lost = True
                elif error.code() not in AGAIN:
                    raise
                answer = pb.FetchResponse()
            for task in answer.assignments if answer.incarnation == self.incarnation else ():
                self.attempt_end = sent + (answer.parked_ms + task.expires_in_ms) / 1000
                self.attempt = task.task_id, task.token
                self.waiting = 0
                self.report(self.execute(task))
                self.attempt = None
            self.waiting = 0
            self.obey(answer.commands)
        self.calls.Leave(pb.LeaveRequest(incarnation=self.incarnation, reason="stopped"))

    def execute(self, task):
        result = pb.Result(task_id=task.task_id, token=task.token, outcome=pb.OUTCOME_COMPLETED)
        report = self.report_of = Report(task)
        try:
            result.result = self.handlers[task.type](task.details, report)
        except Exception as error:  # pylint: disable=broad-except
            result.outcome, result.error = pb.OUTCOME_FAILED, str(error)
        self.report_of = None
        left = report.copy()
        result.first_line = left.first_line
        result.lines.extend(left.lines)
        if left.HasField("progress"):
            result.progress = left.progress
        return result

    def report(self, result):
        pause = 0.02
        while True:
            try:
                answer = self.calls.Report(pb.ReportRequest(incarnation=self.incarnation, results=[result]))
                if answer.acks[0].status != pb.RESULT_STATUS_LATER:
                    return
            except grpc.RpcError as error:
                if error.code() not in AGAIN:
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
    Worker(
        Calls(os.environ.get("REEVE_GRPC", "127.0.0.1:7172"), os.environ.get("REEVE_ACCESS_TOKEN")),
        os.environ.get("REEVE_WORKER", f"{socket.gethostname()}/{os.getpid()}"),
        handlers,
    ).run()


if __name__ == "__main__":
    run({"reverse": reverse})
