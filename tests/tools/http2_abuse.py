"""Callers that abuse HTTP/2, frame by frame:  http2_abuse.py PORT WHAT

resets      opens and resets calls, thousands of them: the connection is ended
overflows   makes the manager reset its calls, by windows that are too large: the connection is ended
refused     opens far more streams than it may, and hardly reads what the manager says of them: the connection is ended
reflects    asks for many descriptions of the contract and takes none: the connection is ended
hoard       asks for many long answers and takes none (its window is 0): the connection is ended
holds       the same, and sends pings: the connection is ended
flood       sends a head that never ends: the connection is ended
pings       sends pings and never reads
settings    changes its settings without end and never reads
halves      begins many calls, and finishes none: the connection is ended
garbage     sends frames of random bytes, with a fixed seed
leaves      waits for a task, and closes its direction of the connection: the connection is ended

Prints how the connection has ended: "closed", or "open" when it is still open.
"""
import random
import socket
import struct
import sys
import time

MAX_WINDOW = 0x7FFFFFFF
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RST_STREAM, SETTINGS, PING, WINDOW_UPDATE, CONTINUATION = 0, 1, 3, 4, 6, 8, 9
END_STREAM, END_HEADERS = 1, 4


def frame(kind, flags, stream, payload=b""):
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


def literal(name, value):
    """A header as HPACK writes it without compression, for texts up to 126 bytes."""
    return b"\x00" + bytes([len(name)]) + name + bytes([len(value)]) + value


def head(path=b"/reeve.v1.TaskService/Wait", content=b"application/json"):
    fields = {b":method": b"POST", b":scheme": b"http", b":path": path, b":authority": b"localhost",
              b"content-type": content}
    return b"".join(literal(name, value) for name, value in fields.items())


def call(stream, path, body):
    return frame(HEADERS, END_HEADERS, stream, head(path)) + frame(DATA, END_STREAM, stream, body)


def resets():
    for stream in range(1, 20001, 2):
        yield call(stream, b"/reeve.v1.TaskService/Wait", b'{"ids":[1],"waitMs":60000}') + frame(
            RST_STREAM, 0, stream, struct.pack(">I", 8))


def overflows():
    for stream in range(1, 20001, 2):
        yield call(stream, b"/reeve.v1.TaskService/Wait", b'{"ids":[1],"waitMs":60000}') + frame(
            WINDOW_UPDATE, 0, stream, struct.pack(">I", MAX_WINDOW))


def refused():
    for stream in range(1, 513, 2):
        yield frame(HEADERS, END_HEADERS, stream, head(b"/grpc.health.v1.Health/Watch", b"application/grpc")) + frame(
            DATA, END_STREAM, stream, bytes(5))
    for first in range(513, 2000513, 2000):
        yield b"".join(frame(HEADERS, END_HEADERS, stream) for stream in range(first, first + 2000, 2))


def reflects():
    question = b"\x22" + bytes([len(b"reeve.v1.WorkerService")]) + b"reeve.v1.WorkerService"
    yield frame(SETTINGS, 0, 0, struct.pack(">HI", 4, 0))
    yield frame(HEADERS, END_HEADERS, 1, head(b"/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", b"application/grpc"))
    for _ in range(100000):
        yield frame(DATA, 0, 1, (b"\0" + struct.pack(">I", len(question)) + question) * 10)


def hoard():
    yield frame(SETTINGS, 0, 0, struct.pack(">HI", 4, 0))
    for stream in range(1, 21, 2):
        yield call(stream, b"/reeve.v1.TaskService/Get", b'{"id":%s}' % sys.argv[3].encode())


def holds():
    yield from hoard()
    for _ in range(40):
        time.sleep(1)
        yield frame(PING, 0, 0, b"12345678")


def flood():
    yield frame(HEADERS, 0, 1, head())
    for _ in range(1000):
        yield frame(CONTINUATION, 0, 1, literal(b"x-flood", b"x" * 100) * 100)


def pings():
    for _ in range(100000):
        yield frame(PING, 0, 0, b"12345678") * 10


def settings():
    for _ in range(100000):
        yield frame(SETTINGS, 0, 0, struct.pack(">HI", 4, 65535)) * 10


def halves():
    for stream in range(1, 401, 2):
        yield frame(HEADERS, END_HEADERS, stream, head()) + frame(DATA, 0, stream, b'{"ids":')


def garbage():
    numbers = random.Random(7)
    for _ in range(2000):
        kind, flags = numbers.randrange(11), numbers.randrange(64)
        yield frame(kind, flags, numbers.randrange(9), numbers.randbytes(numbers.randrange(60)))


def leaves():
    yield call(1, b"/reeve.v1.TaskService/Wait", b'{"ids":[%s],"waitMs":60000}' % sys.argv[3].encode())


def main(port, what):
    connection = socket.socket()
    if what == "refused":
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.connect(("127.0.0.1", int(port)))
    reads = what not in ("pings", "settings", "holds")
    try:
        connection.sendall(PREFACE + frame(SETTINGS, 0, 0))
        connection.settimeout(20)
        for piece in globals()[what]():
            connection.sendall(piece)
            if what == "refused":
                connection.recv(100)
        if what == "leaves":
            connection.shutdown(socket.SHUT_WR)
        end = time.monotonic() + 20
        while reads and time.monotonic() < end and connection.recv(65536):
            pass
        print("open" if not reads or time.monotonic() >= end else "closed")
    except TimeoutError:
        print("open")
    except OSError:
        print("closed")


main(sys.argv[1], sys.argv[2])
