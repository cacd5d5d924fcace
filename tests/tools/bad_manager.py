"""A manager by HTTP that behaves badly: bad_manager.py PORT KIND [URL].

unavailable   it refuses all calls: it has no database
slow          it reads 100 kB in a second, and answers with parts over two seconds
stale         it closes each connection after an answer, without a word; the next request finds it closed
silent        it reads and never answers
page          it answers with a page, as a proxy before a manager may do
faulty        it passes calls on to the manager URL. But of Register, Fetch and Report it answers the first call with an internal error, and
              the second with a page that says that nothing is here"""

import collections
import http.client
import json
import socket
import sys
import threading
import time

PORT, KIND = int(sys.argv[1]), sys.argv[2]
PAGE = "<p>We are back soon.</p>"
calls = collections.Counter()


def read_request(connection):
    data = b""
    while b"\r\n\r\n" not in data:
        part = connection.recv(4096)
        if not part:
            return None
        data += part
    head, body = data.split(b"\r\n\r\n", 1)
    length = next(int(line.split(b":")[1]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
    while len(body) < length:
        if KIND == "slow":
            time.sleep(0.1)
        body += connection.recv(10000)
    return head.decode("latin-1").split("\r\n"), body


def pass_on(head, body):
    """The status and the content of the answer to a request."""
    path = head[0].split()[1]
    calls[path] += path.endswith(("/Register", "/Fetch", "/Report"))
    if calls[path] == 1:
        return "500 Internal Server Error", json.dumps({"code": "internal", "message": "an error"})
    if calls[path] == 2:
        return "404 Not Found", PAGE
    manager = http.client.HTTPConnection(sys.argv[3].removeprefix("http://"))
    manager.request("POST", path, body, dict(line.split(": ", 1) for line in head[1:]))
    answer = manager.getresponse()
    return f"{answer.status} {answer.reason}", answer.read().decode()


def serve(connection):
    while request := read_request(connection):
        if KIND == "silent":
            time.sleep(3600)
        status, answer = "200 OK", json.dumps({"from": KIND})
        if KIND == "unavailable":
            status, answer = "503 Service Unavailable", json.dumps({"code": "unavailable", "message": "no database"})
        if KIND == "page":
            answer = PAGE
        if KIND == "faulty":
            status, answer = pass_on(*request)
        connection.sendall(f"HTTP/1.1 {status}\r\ncontent-length: {len(answer.encode())}\r\n\r\n".encode())
        for letter in answer if KIND == "slow" else [answer]:
            connection.sendall(letter.encode())
            time.sleep(2 / len(answer) if KIND == "slow" else 0)
        if KIND == "stale":
            time.sleep(0.2)
            connection.close()
            return
    connection.close()


listener = socket.create_server(("127.0.0.1", PORT))
if KIND == "slow":
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16384)
print("ready", flush=True)
while True:
    threading.Thread(target=serve, args=listener.accept()[:1], daemon=True).start()
