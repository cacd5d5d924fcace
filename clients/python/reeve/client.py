"""Calls of a manager, and the everyday ones: submit, wait, get."""

import base64
import binascii
import getpass
import http.client
import json
import os
import socket
import threading
import time
import urllib.parse
import uuid

# Codes after which the same call may succeed later; a call keeps its idempotency key then.
TRANSIENT = ("unavailable", "resource_exhausted", "aborted")


class Error(Exception):
    """A manager has refused a call, or none can be reached. `code` is one of Connect's: "not_found"."""

    def __init__(self, code, message):
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message


class TaskFailed(Exception):
    """A task has ended without a result. `task` is the task as the contract describes it."""

    def __init__(self, task):
        status = task.get("status", "").replace("TASK_STATUS_", "").lower()
        super().__init__(f"task {task['id']} is {status}: {task.get('lastError', '')}")
        self.task = task


def user_name():
    """The user's name; its number if it has none, as in some containers."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())


def check_urls(urls):
    """Returns the URLs of managers as a list."""
    urls = [urls] if isinstance(urls, str) else list(urls)
    for url in urls:
        if not url.startswith(("http://", "https://")):
            raise ValueError(f'"{url}" is no URL for calls by HTTP: they are like "http://host:7172" (reeve-manager --http)')
    if not urls:
        raise ValueError("no URL of a manager is given")
    return urls


def environment_token():
    """The access token of the environment, as for Reeve's own programs; or None."""
    token = os.environ.get("REEVE_ACCESS_TOKEN")
    file = os.environ.get("REEVE_ACCESS_TOKEN_FILE")
    if not token and file:
        with open(file, encoding="ascii") as lines:
            token = lines.read().strip()
    return token or os.environ.get("REEVE_ATTEMPT_ACCESS_TOKEN") or None


def as_text(value):
    """Details or a result: a text, or a value that becomes JSON; None is empty."""
    return value if isinstance(value, str) else "" if value is None else json.dumps(value)


BINARY = "data:application/octet-stream;base64,"  # of a result that is no text, has a NUL, or begins like this


def result_text(value):
    """The text that stands for a result: bytes, or as in as_text."""
    text = value if isinstance(value, bytes) else as_text(value)
    if isinstance(text, str) and not text.startswith(BINARY) and "\0" not in text:
        return text
    return BINARY + base64.b64encode(text.encode() if isinstance(text, str) else text).decode()


def result_of(task):
    """The result of a task that has ended: a text, or bytes if its handler has returned a binary one. Raises TaskFailed."""
    if task["status"] != "TASK_STATUS_COMPLETED":
        raise TaskFailed(task)
    text = task.get("result", "")
    if not text.startswith(BINARY):
        return text
    try:
        result = base64.b64decode(text[len(BINARY) :], validate=True)
    except binascii.Error:
        return text
    try:
        return result.decode() if result.startswith(BINARY.encode()) else result
    except UnicodeDecodeError:
        return result


def wait_left(end):
    """How many seconds a call may wait until a time (None: without end)."""
    return 20.0 if end is None else min(max(end - time.monotonic(), 0), 20.0)


class Client:
    """Calls one of some managers of a database: the first that answers. Any thread may call.

    `urls`: "http://host:port", or a list of them. `token`: an access token; None: that of the environment. `timeout`: seconds in
    which a call must be answered, with all tries."""

    def __init__(self, urls, token=None, actor=None, timeout=30.0):
        self.urls = check_urls(urls)
        self.token = token or environment_token()
        self.actor = actor or f"{user_name()}@{socket.gethostname()}"
        self.timeout = timeout
        self._first = 0  # of the URLs
        self._local = threading.local()

    def call(self, method, request=None, timeout=None, key=None, again=None):
        """Calls "TaskService/Get" with a message as a dict, and returns the answer as a dict. Repeats what may be repeated
        until the timeout: calls carry an idempotency key, `key` or a new one; none if it is False. `again`: fields that a repetition has."""
        end = time.monotonic() + (self.timeout if timeout is None else timeout)
        key = uuid.uuid4().hex if key is None else key
        pause = 0.05
        while True:
            try:
                return self._call_once(method, request or {}, end, key)
            except Error as error:
                if error.code not in TRANSIENT or time.monotonic() + pause > end:
                    raise
            except (OSError, http.client.HTTPException) as error:
                self._drop()
                self._first = (self._first + 1) % len(self.urls)
                if time.monotonic() + pause > end:
                    raise Error("unavailable", f"{self.urls[self._first]}: {error}") from error
            request = dict(request or {}, **(again or {}))
            time.sleep(pause)
            pause = min(2 * pause, 1.0)

    def _connection(self):
        url = self.urls[self._first]
        if getattr(self._local, "url", None) != url:
            self._drop()
            parts = urllib.parse.urlsplit(url)
            kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
            self._local.connection = kind(parts.hostname, parts.port)
            self._local.url = url
        return self._local.connection

    def _drop(self):
        if getattr(self._local, "connection", None):
            self._local.connection.close()
        self._local.connection = self._local.url = None

    def _call_once(self, method, request, end, key):
        left = max(end - time.monotonic(), 0.001)
        headers = {
            "Content-Type": "application/json",
            "Connect-Protocol-Version": "1",
            "Connect-Timeout-Ms": str(int(left * 1000) + 1),
            "Reeve-Actor": self.actor,
        }
        if key:
            headers["Idempotency-Key"] = key
        if self.token:
            headers["Authorization"] = f"Bearer {self.token}"
        connection = self._connection()
        connection.timeout = left + 1  # the manager answers before
        if connection.sock:
            connection.sock.settimeout(connection.timeout)
        connection.request("POST", f"/reeve.v1.{method}", json.dumps(request).encode(), headers)
        response = connection.getresponse()
        body = response.read()
        if response.status == 200:
            return json.loads(body)
        try:
            problem = json.loads(body)
            raise Error(problem["code"], problem.get("message", ""))
        except (ValueError, KeyError, TypeError):
            raise Error("unavailable" if response.status >= 500 else "unknown", f"HTTP status {response.status}") from None

    def submit(self, type, details="", queue="", **fields):
        """Creates a task and returns its id. `details`: a text, or a value that becomes JSON. `fields`: those of TaskSpec
        (proto/reeve/v1/task.proto), such as key, delay_ms, priority, max_attempts."""
        return self.submit_all([dict(fields, type=type, details=details, queue=queue)])[0]

    def submit_all(self, tasks, timeout=None):
        """Creates many tasks in one call and returns their ids."""
        specs = [dict(task, details=as_text(task.get("details"))) for task in tasks]
        answer = self.call("TaskService/Submit", {"tasks": specs}, timeout)
        return [int(task["id"]) for task in answer["tasks"]]

    def get(self, id):
        """Returns a task as the contract describes it."""
        return self.call("TaskService/Get", {"id": id})["task"]

    def wait(self, id, timeout=None):
        """Waits until a task has ended, and returns its result. Raises TaskFailed, or TimeoutError with the task's `id` if it has not
        ended."""
        end = None if timeout is None else time.monotonic() + timeout
        while True:
            left = wait_left(end)
            answer = self.call("TaskService/Wait", {"ids": [id], "wait_ms": int(left * 1000)}, left + self.timeout)
            if answer.get("ended"):
                return result_of(answer["ended"][0])
            if end is not None and time.monotonic() >= end:
                error = TimeoutError(f"task {id} has not ended")
                error.id = id
                raise error

    def submit_and_wait(self, type, details="", queue="", timeout=None, **fields):
        """Like submit and then wait, in one call if the task ends within 20 seconds. It is the same task in all tries of the call."""
        end = None if timeout is None else time.monotonic() + timeout
        left = wait_left(end)
        task = dict(fields, type=type, details=as_text(details), queue=queue)
        request = {"tasks": [task], "wait_ms": int(left * 1000)}
        answer = self.call("TaskService/SubmitAndWait", request, left + self.timeout)
        if answer.get("ended"):
            return result_of(answer["ended"][0])
        return self.wait(int(answer["tasks"][0]["id"]), None if end is None else max(end - time.monotonic(), 0))
