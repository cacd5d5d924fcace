#!/usr/bin/env python3
"""Opens many TLS connections that send a hello and no more: abandon.py PORT COUNT. Prints how long that took, and keeps
them open until it is ended, or each is closed by the other end."""
import resource
import socket
import ssl
import sys
import time

port, count = int(sys.argv[1]), int(sys.argv[2])
_, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
context = ssl.create_default_context()
context.check_hostname = False
context.verify_mode = ssl.CERT_NONE
incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
try:
    context.wrap_bio(incoming, outgoing).do_handshake()
except ssl.SSLWantReadError:
    pass
hello = outgoing.read()
sockets, began = [], time.monotonic()
for _ in range(count):
    sockets.append(socket.create_connection(("127.0.0.1", port)))
    sockets[-1].sendall(hello)
print(f"opened {count} in {time.monotonic() - began:.1f} s", flush=True)
time.sleep(600)
