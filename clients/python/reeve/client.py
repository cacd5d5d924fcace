"""Calls of a manager, and the everyday ones: submit, wait, get."""

import base64
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
TRANSIENT = ("unavailable", "resource_exhausted", "aborted", "deadline_exceeded")
BYTES_PER_SECOND = 100000  # of the slowest line; managers expect as much
WAIT = 20.0  # the longest of a call
FAILOVER = 1.5  # seconds that a manager has at least, if there are others


class Error(Exception):
    """A manager has refused a call, or none can be reached. `code` is one of Connect's: "not_found". After "deadline_exceeded" the call
    may have happened: `call` with `key` repeats it."""

    def __init__(self, code, message):
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message
        self.key = None  # the call's idempotency key


class NoAnswer(Exception):
    """A manager has not answered. `sent`: it may have the call. `stale`: it may have closed the connection before."""

    def __init__(self, sent, stale):
        super().__init__()
        self.sent = sent
        self.stale = stale


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
    """The access token of the environment, as for Reeve's own programs, or None; and the file that has it, or None."""
    token = os.environ.get("REEVE_ACCESS_TOKEN")
    file = os.environ.get("REEVE_ACCESS_TOKEN_FILE")
    if not token and file:
        return token_in(file), file
    return token or os.environ.get("REEVE_ATTEMPT_ACCESS_TOKEN") or None, None


def token_in(file):
    with open(file, encoding="ascii") as lines:
        return lines.read().strip() or None


def encode(message):
    """A message as bytes. Letters are themselves, as in the sizes that managers limit; half a character is an escape."""
    try:
        return json.dumps(message, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return json.dumps(message).encode()


def as_text(value):
    """Details or a result: a text, or a value that becomes JSON; None is empty. NaN and infinities are no JSON: they become null."""
    if isinstance(value, str) or value is None:
        return value or ""
    text = encode(value).decode()
    if "NaN" in text or "Infinity" in text:
        text = encode(json.loads(text, parse_constant=lambda _: None)).decode()
    return text


BINARY = "data:application/octet-stream;base64,"  # of a result that is no text, has a NUL, or begins like this


def result_text(value):
    """The text that stands for a result: bytes, or as in as_text."""
    text = value if isinstance(value, bytes) else as_text(value)
    if isinstance(text, str) and not text.startswith(BINARY) and "\0" not in text:
        return text
    return BINARY + base64.b64encode(text.encode() if isinstance(text, str) else text).decode()


def result_of(task):
    """The result of a task that has ended: a text, or bytes if its handler has returned a binary one. Raises TaskFailed, or an Error if
    the manager has omitted the result."""
    if task["status"] != "TASK_STATUS_COMPLETED":
        raise TaskFailed(task)
    length = task.get("omitted", {}).get("resultBytes")
    if length:
        problem = f"the result of task {task['id']} has {length} bytes, too long for the manager's messages (--max-message)"
        raise Error("failed_precondition", problem)
    text = task.get("result", "")
    if not text.startswith(BINARY):
        return text
    try:
        result = base64.b64decode(text[len(BINARY) :], validate=True)
    except ValueError:
        return text
    try:
        return result.decode() if result.startswith(BINARY.encode()) else result
    except UnicodeDecodeError:
        return result


def answer_in(text):
    """The message in the content of an answer. A proxy's page is none."""
    try:
        answer = json.loads(text)
        if not isinstance(answer, dict):
            raise ValueError("it is no object")
    except ValueError as error:
        raise NoAnswer(True, False) from ValueError(f"the answer is not a manager's: {error}")
    return answer


def wait_left(end):
    """How many seconds a call may wait until a time (None: without end)."""
    return WAIT if end is None else min(max(end - time.monotonic(), 0), WAIT)


class Client:
    """Calls one of some managers of a database: the first that answers. Any thread may call.

    `urls`: "http://host:port", or a list of them. `token`: an access token; None: that of the environment. `timeout`: seconds in
    which a call must be answered, with all tries; long messages have more."""

    def __init__(self, urls, token=None, actor=None, timeout=30.0):
        self.urls = check_urls(urls)
        self.token, self._token_file = (token, None) if token else environment_token()
        self.actor = actor or f"{user_name()}@{socket.gethostname()}"
        self.timeout = timeout
        self._current = 0  # of the URLs
        self._local = threading.local()

    def call(self, method, request=None, timeout=None, key=None, again=None):
        """Calls "TaskService/Get" with a message as a dict, and returns the answer as a dict. Repeats the call until the timeout, at the
        next manager if one does not answer. Calls carry an idempotency key, `key` or a new one. If it is False, there is none, and a
        call that a manager may have is not repeated. `again`: a function of the seconds left; it returns fields for a repetition."""
        key = uuid.uuid4().hex if key is None else key
        body = encode(request or {})
        end = time.monotonic() + (self.timeout if timeout is None else timeout) + len(body) / BYTES_PER_SECOND
        pause, unknown = 0.05, False
        while True:
            current, token = self._current, self.token
            sent = stale = False
            try:
                return self._call_once(self.urls[current], method, body, self._share(request or {}, end), key)
            except Error as error:
                problem = error
            except NoAnswer as error:
                sent, stale = error.sent, error.stale
                problem = Error("unavailable", f"{self.urls[current]}: {error.__cause__}")
                problem.__cause__ = error.__cause__
            unknown = unknown or sent
            if problem.code == "unauthenticated" and self._has_new_token(token):
                continue
            if problem.code in ("unavailable", "deadline_exceeded") and not stale and self._current == current:
                self._current = (current + 1) % len(self.urls)  # unless another thread has done so
            final = problem.code not in TRANSIENT
            if final or (sent and key is False) or time.monotonic() + pause > end:
                if unknown and not final:
                    problem = Error("deadline_exceeded", f"the call may have happened: {problem.message}")
                problem.key = key or None
                raise problem
            if not stale:  # else at once, on a new connection
                time.sleep(pause)
                pause = min(2 * pause, 1.0)
            if again:
                request = dict(request or {}, **again(end - time.monotonic()))
                body = encode(request)

    def _share(self, request, end):
        """How long a manager may take to answer: with several managers, a share of the time left."""
        left = max(end - time.monotonic(), 0.001)
        wait = float(request.get("wait_ms", request.get("waitMs", 0))) / 1000
        count = len(self.urls)
        return left if count == 1 else min(left, wait + max((left - wait) / (2 * count), FAILOVER))

    def _has_new_token(self, refused):
        """Reads the token again that a manager has refused."""
        try:
            if self.token == refused and self._token_file:
                self.token = token_in(self._token_file)
        except (OSError, ValueError):
            pass  # it is being replaced
        return self.token != refused

    def _connection(self, url):
        place = url, os.getpid()  # a child process makes its own
        if getattr(self._local, "place", None) != place:
            self._drop()
            parts = urllib.parse.urlsplit(url)
            kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
            self._local.connection = kind(parts.hostname, parts.port)
            self._local.place = place
        return self._local.connection

    def _drop(self):
        if getattr(self._local, "connection", None):
            self._local.connection.close()
        self._local.connection = self._local.place = None

    def _call_once(self, url, method, body, seconds, key):
        headers = {
            "Content-Type": "application/json",
            "Connect-Protocol-Version": "1",
            "Connect-Timeout-Ms": str(int(seconds * 1000) + 1),
            "Reeve-Actor": self.actor.encode(),
        }
        if key is False:
            self._drop()  # no call is lost because its connection is stale
        else:
            headers["Idempotency-Key"] = key
        if self.token:
            headers["Authorization"] = f"Bearer {self.token}"
        status, text = self._post(url, f"/reeve.v1.{method}", body, headers, seconds)
        if status == 200:
            return answer_in(text)
        try:
            problem = json.loads(text)
            code, message = problem["code"], problem.get("message", "")
        except (ValueError, KeyError, TypeError):
            code, message = "unavailable" if status >= 500 or status in (408, 425, 429) else "unknown", f"HTTP status {status}"
        raise Error("invalid_argument" if status == 413 else code, message)  # 413: the message is too long, and stays so

    def _post(self, url, path, body, headers, seconds):
        connection = self._connection(url)
        used = connection.sock is not None
        sent = refused = False
        try:
            connection.timeout = seconds
            if not used:
                connection.connect()
            # The manager answers before, from when it has the message. Each further part of the answer has as long.
            connection.sock.settimeout(seconds + min(seconds / 2, 1) + len(body) / BYTES_PER_SECOND)
            sent = True
            try:
                connection.request("POST", path, body, headers)
            except (BrokenPipeError, ConnectionResetError):
                refused = True  # perhaps with an answer: the message is too long
            response = connection.getresponse()
            text = response.read()
        except (OSError, http.client.HTTPException) as error:
            self._drop()
            raise NoAnswer(sent, used and not isinstance(error, socket.timeout)) from error
        if refused:
            self._drop()
        return response.status, text

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
            begin, left = time.monotonic(), wait_left(end)
            grace = self.timeout if left == WAIT else min(self.timeout, 5.0)
            request = {"ids": [id], "wait_ms": int(left * 1000)}
            try:
                answer = self.call("TaskService/Wait", request, left + grace, again=lambda _: {"wait_ms": int(wait_left(end) * 1000)})
            except Error as error:
                if error.code not in TRANSIENT or end is None or time.monotonic() < end:
                    raise
                answer = {}
            if answer.get("ended"):
                return result_of(answer["ended"][0])
            if end is not None and time.monotonic() >= end:
                error = TimeoutError(f"task {id} has not ended")
                error.id = id
                raise error
            if time.monotonic() - begin < left:
                time.sleep(0.1)  # the manager stops

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
