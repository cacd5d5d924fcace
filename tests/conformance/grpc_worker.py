"""examples/grpc-worker, for tests/conformance/run."""
import os
import subprocess
import sys
import tempfile
import time

EXAMPLE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../examples/grpc-worker")
GENERATED = os.environ.setdefault("GENERATED", os.path.join(tempfile.gettempdir(), f"grpc-worker-{os.getpid()}"))
os.environ["REEVE_GRPC"] = os.environ["REEVE_URL"].replace("http://", "")
subprocess.run([os.path.join(EXAMPLE, "generate"), GENERATED], check=True)
sys.path.insert(0, EXAMPLE)
from worker import run


def ticks(details, report):
    path, seconds = details.rsplit(" ", 1)
    end = time.monotonic() + float(seconds)
    while time.monotonic() < end:
        with open(path, "a", encoding="ascii") as file:
            file.write("tick\n")
        if report.stopped.wait(0.1):
            raise RuntimeError("stopped")
    return ""


def fail(details, report):
    raise RuntimeError(details)


run({"echo": lambda details, report: details, "fail": fail, "ticks": ticks})
