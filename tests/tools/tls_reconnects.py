#!/usr/bin/env python3
"""Opens connections with TLS one after the other, each with a certificate, a hello and the end of TLS or a reset:
tls_reconnects.py PORT COUNT CA CERTIFICATE KEY"""
import socket
import ssl
import struct
import sys

port, count = int(sys.argv[1]), int(sys.argv[2])
context = ssl.create_default_context(cafile=sys.argv[3])
context.load_cert_chain(sys.argv[4], sys.argv[5])
for n in range(count):
    plain = socket.create_connection(("127.0.0.1", port), 20)
    if n % 2:
        plain.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # close resets it
    with context.wrap_socket(plain, server_hostname="127.0.0.1") as secure:
        secure.sendall(b"\0SP\0\0\x30\0\0")
        hello = b""
        while len(hello) < 8:
            part = secure.recv(8 - len(hello))
            if not part:
                sys.exit(f"connection {n} ended")
            hello += part
