"""clients/python, for tests/conformance/run."""
import os
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../../clients/python"))
from reeve import Client, Worker


def ticks(task):
    path, seconds = task.details.rsplit(" ", 1)
    end = time.monotonic() + float(seconds)
    while time.monotonic() < end:
        with open(path, "a", encoding="ascii") as file:
            file.write("tick\n")
        if task.stopped.wait(0.1):
            raise RuntimeError("stopped")


def fail(task):
    raise RuntimeError(task.details)


worker = Worker(Client(os.environ["REEVE_URL"]), concurrency=2, name=os.environ["REEVE_WORKER"])
worker.handle("echo", lambda task: task.details)
worker.handle("fail", fail)
worker.handle("ticks", ticks)
worker.run()
