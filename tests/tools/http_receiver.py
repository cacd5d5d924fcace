#!/usr/bin/env python3
"""Receives callbacks and answers as the path specifies.

    http_receiver.py --port PORT [--address ADDRESS] --log FILE [--secret SECRET] [--certificate FILE --key FILE]

Writes each call as one JSON line to FILE before it answers: {"t", "path", "id", "timestamp", "signed", "agent", "type",
"expect", "body"}. "signed" is the result of its own check of the signature: true, false, or null without one.

    /ok                200                        /gone             410
    /status/N          N                          /moved            301 to /ok
    /fail/N            500 to the first N calls of an id, then 200
    /later/S           503 with Retry-After: S to the first call of an id, then 200
    /unavailable/S     503 with Retry-After: S
    /hang              no answer                  /close            closes the connection without an answer
    /half              200, without the announced body
    /endless           200, with an endless body
    /endless-head      an endless header
    /hold              no answer until the file FILE.go exists, then 200
"""

import argparse
import base64
import hashlib
import hmac
import http.server
import json
import os
import ssl
import threading
import time


def signed(secret, headers, body):
    """Returns whether one of the signatures is valid, with a timestamp within 300 s of now; None without signatures."""
    given = headers.get("webhook-signature")
    if given is None:
        return None
    key = base64.b64decode(secret[6:]) if secret.startswith("whsec_") else secret.encode()
    content = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
    wanted = "v1," + base64.b64encode(hmac.new(key, content, hashlib.sha256).digest()).decode()
    fresh = abs(time.time() - int(headers["webhook-timestamp"])) < 300
    return fresh and any(hmac.compare_digest(wanted, one) for one in given.split())


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    calls = {}
    lock = threading.Lock()

    def log_message(self, *_):
        pass

    def answer(self, status, *headers):
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Length", "3")
        self.end_headers()
        self.wfile.write(b"ok\n")

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        number = self.note(body)
        path, _, argument = self.path[1:].split("?")[0].partition("/")
        if path == "status":
            self.answer(int(argument))
        elif path == "fail":
            self.answer(500 if number <= int(argument) else 200)
        elif path in ("later", "unavailable"):
            self.answer(*((503, ("Retry-After", argument)) if number == 1 or path == "unavailable" else (200,)))
        elif path == "gone":
            self.answer(410)
        elif path == "moved":
            self.answer(301, ("Location", "/ok"))
        elif path in ("hang", "half", "close"):
            if path == "half":
                self.send_response(200)
                self.send_header("Content-Length", "1000")
                self.end_headers()
            while path != "close" and not self.gone():
                time.sleep(0.05)
            self.close_connection = True
        elif path == "endless":
            self.send_response(200)
            self.end_headers()
            self.flood(b"x" * 65536)
        elif path == "endless-head":
            self.wfile.write(b"HTTP/1.1 200 OK\r\n")
            self.flood(b"X-More: " + b"x" * 1000 + b"\r\n")
        elif path == "hold":
            while not os.path.exists(self.server.log + ".go") and not self.gone():
                time.sleep(0.01)
            self.answer(200)
        else:
            self.answer(200)

    def gone(self):
        """Returns whether the client has closed the connection."""
        self.connection.settimeout(0.001)
        try:
            return self.connection.recv(1) == b""
        except (TimeoutError, ssl.SSLWantReadError):
            return False
        except OSError:
            return True
        finally:
            self.connection.settimeout(None)

    def flood(self, data):
        self.close_connection = True
        try:
            while True:
                self.wfile.write(data)
        except OSError:
            pass

    def note(self, body):
        """Writes the line. Returns the number of this call among those of its id, from 1."""
        line = json.dumps({
            "t": time.time(), "path": self.path, "id": self.headers["webhook-id"],
            "timestamp": self.headers["webhook-timestamp"],
            "signed": signed(self.server.secret, self.headers, body), "agent": self.headers["User-Agent"],
            "type": self.headers["Content-Type"], "expect": self.headers["Expect"], "body": body.decode()})
        with Handler.lock:
            fd = os.open(self.server.log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
            os.write(fd, line.encode() + b"\n")
            os.close(fd)
            Handler.calls[self.headers["webhook-id"]] = Handler.calls.get(self.headers["webhook-id"], 0) + 1
            return Handler.calls[self.headers["webhook-id"]]


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, *_):
        pass  # clients that disconnect


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--address", default="127.0.0.1")
    parser.add_argument("--log", required=True)
    parser.add_argument("--secret", default="")
    parser.add_argument("--certificate")
    parser.add_argument("--key")
    options = parser.parse_args()
    server = Server((options.address, options.port), Handler)
    server.log, server.secret = options.log, options.secret
    if options.certificate:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(options.certificate, options.key)
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    server.serve_forever()


main()
