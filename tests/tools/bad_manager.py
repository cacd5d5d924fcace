"""A manager by HTTP that behaves badly: bad_manager.py PORT KIND.

unavailable   it refuses all calls: it has no database
slow          it reads 100 kB in a second, and answers with parts over two seconds
stale         it closes each connection after an answer, without a word; the next request finds it closed
silent        it reads and never answers"""

import json
import socket
import sys
import threading
import time

PORT, KIND = int(sys.argv[1]), sys.argv[2]


def read_request(connection):
    data = b""
    while b"\r\n\r\n" not in data:
        part = connection.recv(4096)
        if not part:
            return False
        data += part
    head, body = data.split(b"\r\n\r\n", 1)
    length = next(int(line.split(b":")[1]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
    while len(body) < length:
        if KIND == "slow":
            time.sleep(0.1)
        body += connection.recv(10000)
    return True


def serve(connection):
    while read_request(connection):
        if KIND == "silent":
            time.sleep(3600)
        status, answer = "200 OK", json.dumps({"from": KIND})
        if KIND == "unavailable":
            status, answer = "503 Service Unavailable", json.dumps({"code": "unavailable", "message": "no database"})
        connection.sendall(f"HTTP/1.1 {status}\r\ncontent-length: {len(answer)}\r\n\r\n".encode())
        for letter in answer:
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
