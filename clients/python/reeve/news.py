"""What a running handler has reported and no manager has acknowledged."""

import collections
import threading
import time

MAX_LINES = 1000
MAX_BYTES = 65536
MAX_LINE_BYTES = 4096
INTERVAL = 1.0  # between two messages about an attempt, in seconds


def clean(text, limit):
    """A text as managers take it: UTF-8 without NUL, cut to a number of bytes."""
    data = str(text)[:limit].encode("utf-8", "replace").replace(b"\0", b"\xef\xbf\xbd")
    return data[:limit].decode("utf-8", "ignore")


class News:
    """The progress, the remark and the last lines of an attempt. Any thread may call."""

    def __init__(self):
        self._lock = threading.Lock()
        self._lines = collections.deque()  # (time, text, bytes)
        self._bytes = 0
        self._next = 1  # the number of the next line
        self._progress = None
        self._remark = ""
        self._sent_at = 0.0

    def progress(self, percent, remark):
        percent = float(percent)
        with self._lock:
            if percent == percent:  # NaN is no JSON
                self._progress = min(max(percent, 0.0), 100.0)
            if remark is not None:
                self._remark = clean(remark, 1000)

    def log(self, text):
        for line in str(text).split("\n"):
            line = clean(line, MAX_LINE_BYTES)
            size = len(line.encode())
            with self._lock:
                self._lines.append((time.monotonic(), line, size))
                self._bytes += size
                self._next += 1
                while len(self._lines) > MAX_LINES or self._bytes > MAX_BYTES:
                    self._bytes -= self._lines.popleft()[2]

    def message(self):
        """The fields of an AttemptProgress; None if there is nothing new, or too early."""
        with self._lock:
            if time.monotonic() < self._sent_at + INTERVAL or not (
                self._lines or self._remark or self._progress is not None
            ):
                return None
            self._sent_at = time.monotonic()
            return self._fields()

    def rest(self):
        """The same for a result."""
        with self._lock:
            return self._fields()

    def _fields(self):
        now = time.monotonic()
        progress = {} if self._progress is None else {"progress": self._progress}
        return {
            **progress,
            "remark": self._remark,
            "first_line": self._next - len(self._lines),
            "lines": [{"text": text, "age_ms": int(1000 * (now - at))} for at, text, _ in self._lines],
        }

    def acknowledged(self, message):
        """Drops what a manager has taken."""
        with self._lock:
            if self._progress == message.get("progress"):
                self._progress = None
            if self._remark == message["remark"]:
                self._remark = ""
            after = message["first_line"] + len(message["lines"])
            while self._lines and self._next - len(self._lines) < after:
                self._bytes -= self._lines.popleft()[2]
