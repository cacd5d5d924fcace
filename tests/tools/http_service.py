#!/usr/bin/env python3
"""A service for http handlers, which answers as the task's details say.

    http_service.py --folder DIR [--socket FILE | --port PORT]

The details are an object: {"status": 200, "headers": {"Retry-After": "1"}, "body": "done", "after": SECONDS}. Instead of "body",
"echo" is a list of the request's headers to answer with, one a line, and "run" a command whose output is the answer and which has the
access token of the request's attempt. "do": "endless" sends a body without an end, "half" closes the
connection after a part of it, "close" without an answer, "head" sends a head without an end. Each connection that its client has
closed while it waited for an answer adds a line to DIR/closed; each call, one to DIR/calls.
"""

import argparse
import http.server
import json
import os
import select
import socket
import socketserver
import subprocess
import time


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def note(self, name):
        with open(f"{self.server.folder}/{name}", "a") as file:
            file.write(f"{self.client_address}\n")

    def waits(self, seconds):
        """Returns whether the client is still there after this time."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            ready, _, _ = select.select([self.connection], [], [], 0.02)
            if ready and not self.connection.recv(1, socket.MSG_PEEK):
                self.note("closed")
                return False
        return True

    def do_POST(self):
        raw = self.rfile.read(int(self.headers["Content-Length"]))
        order = json.loads(raw)
        self.note("calls")
        if not self.waits(order.get("after", 0)):
            self.close_connection = True
            return
        do = order.get("do", "")
        body = order.get("body", "").encode("latin-1" if do == "raw" else "utf-8")
        if "echo" in order:
            body = "\n".join(self.headers.get(name, "-") for name in order["echo"]).encode()
        if "run" in order:
            token = {"REEVE_ATTEMPT_ACCESS_TOKEN": self.headers["Reeve-Attempt-Access-Token"]}
            body = subprocess.run(order["run"], env=os.environ | token, stdout=subprocess.PIPE, check=True).stdout
        if do in ("close", "half", "endless", "head"):
            self.close_connection = True
        try:
            if do == "close":
                return
            self.send_response(order.get("status", 200))
            for name, value in order.get("headers", {}).items():
                self.send_header(name, value)
            while do == "head":
                self.send_header("X", "x" * 1000)
                self.flush_headers()
            self.send_header("Content-Length", str(1 << 30 if do in ("half", "endless") else len(body)))
            self.end_headers()
            self.wfile.write(body)
            while do == "endless":
                self.wfile.write(b"x" * 65536)
        except (BrokenPipeError, ConnectionResetError):
            self.note("closed")


class Local(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--folder", required=True)
    parser.add_argument("--socket")
    parser.add_argument("--port", type=int)
    options = parser.parse_args()
    if options.socket:
        server = Local(options.socket, Handler)
    else:
        server = http.server.ThreadingHTTPServer(("127.0.0.1", options.port), Handler)
    server.folder = options.folder
    server.serve_forever()


main()
