"""What a handler gets and may raise."""

import json
import threading

from .news import News


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
        self.key = assignment.get("key", "")
        self.stage = assignment.get("stage", "")
        self.attempt = assignment.get("attempt", 0)
        self.max_attempts = assignment.get("maxAttempts", 0)
        self.traceparent = assignment.get("traceparent", "")
        self.stopped = threading.Event()
        self._news = News()
        self._why = None  # it must stop: "cancelled", "timeout", "lease", "returned"
        self._result = None
        self._bytes = 0  # of the result
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
