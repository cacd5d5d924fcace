#!/usr/bin/env python3
"""Clients that a manager must withstand: they follow the protocol, but use more than their share.

	overload.py URL waits COUNT TASK [N]   COUNT Waits for a task, or for N tasks from that id on, on one connection
	overload.py URL fetches COUNT [FIRST [again]]  COUNT Fetches on one connection, of COUNT incarnations: from FIRST on, or
	                                      of incarnations that never existed; `again`: as if each was sent before
	overload.py URL announce COUNT BYTES   COUNT connections, each with the header of a message of BYTES bytes
	overload.py URL connections COUNT [TASK [N]]  COUNT connections, each with one open Wait for such tasks (default: task 1)
	overload.py URL idle COUNT             COUNT connections that send nng's protocol header and then nothing
	overload.py URL submits COUNT TASKS    COUNT Submits of TASKS tasks of the queue "flood", all at once
	overload.py URL types COUNT TASKS      COUNT Submits of TASKS tasks, each of a new type, all at once
	overload.py URL reads COUNT CALLS      COUNT connections, each with CALLS open calls that list schedules
	overload.py URL gets COUNT TASK        COUNT connections, each of which gets the task repeatedly
	overload.py URL token BYTES            one call with a token of BYTES bytes
	overload.py URL large COUNT BYTES      COUNT connections, each with one Submit of a task with BYTES bytes of details
	overload.py URL turns TASK             each of `kinds`, in turn: a backlog on one connection, and a call of another
	overload.py URL strangers              the same with Fetches of incarnations that never existed

`turns` and `strangers` print a line for each kind, and end: how many calls of the backlog were answered between the send and
the answer of the other call, of how many that were open; the milliseconds that it took then, and took without the backlog;
the code of its answer, the codes of the backlog's.

The others print `ready` when that is done, and then every second the answers received (count, code, message). Keeps the
connections open until it is killed. They come from the address GREEDY_FROM, if that is set, and read only some
KiB while the file GREEDY_UNREAD exists: a connection that reads nothing is cut.
"""
import collections
import os
import pathlib
import re
import select
import socket
import struct
import sys
import time


ENVELOPE = pathlib.Path(__file__).parents[2] / 'proto/reeve/v1/envelope.proto'
STRANGER = 900000000  # an incarnation that never existed, as those after it
CONTRACT = int(re.search(r'CONTRACT_CURRENT = (\d+)', ENVELOPE.read_text())[1])


def varint(n):
    out = b''
    while n > 127:
        out += bytes([n & 127 | 128])
        n >>= 7
    return out + bytes([n])


def field(number, value):
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def uuid7():
    ms = int(time.time() * 1000)
    random = bytearray(os.urandom(10))
    random[0] = random[0] & 15 | 0x70
    random[2] = random[2] & 63 | 128
    return ms.to_bytes(6, 'big') + bytes(random)


def envelope(method, body=b'', token=b''):
    return (field(1, b'/reeve.v1.' + method.encode()) + field(2, uuid7()) + (field(4, token) if token else b'') +
            field(5, b'greedy') + field(6, body) + field(7, CONTRACT))


class Connection:
    def __init__(self, url):
        host, port = url.replace('tcp://', '').rsplit(':', 1)
        source = os.environ.get('GREEDY_FROM')
        self.socket = socket.create_connection((host, int(port)), source_address=(source, 0) if source else None)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.sendall(b'\0SP\0\0\x30\0\0')
        self.got = b''
        self.greeted = False
        self.sent = 0

    def frame(self, message):
        self.sent += 1
        return struct.pack('>QI', len(message) + 4, 1 << 31 | self.sent) + message

    def answers(self):
        """Receives data. Returns the code and message of each complete answer; None at the end of the connection."""
        got = self.socket.recv(1 << 20)
        if not got:
            return None
        self.got += got
        if not self.greeted and len(self.got) >= 8:
            self.greeted, self.got = True, self.got[8:]
        out = []
        while self.greeted and len(self.got) >= 12:
            length = struct.unpack('>Q', self.got[:8])[0]
            if len(self.got) < 8 + length:
                break
            out.append(read_reply(self.got[12:8 + length]))
            self.got = self.got[8 + length:]
        return out


def read_reply(body):
    code, text, at = 0, '', 0
    while at < len(body):
        tag, length, shift = body[at], 0, 0
        at += 1
        while True:
            length |= (body[at] & 127) << shift
            shift += 7
            at += 1
            if body[at - 1] < 128:
                break
        if tag == 8:
            code = length
        else:
            if tag == 18:
                text = body[at:at + length].decode()
            at += length
    return code, text


def listen(connections, again=None):
    while True:
        told = collections.Counter()
        end = time.time() + 1
        while time.time() < end:
            ready = select.select(connections, [], [], max(0, end - time.time()))[0] if connections else []
            if not connections:
                time.sleep(0.1)
            for s in ready:
                connection = BY_SOCKET[s]
                try:
                    answers = connection.answers()
                except OSError:
                    answers = None
                if answers is None:
                    connections.remove(s)
                    told['closed', ''] += 1
                told.update(answers or [])
                if again and answers:
                    connection.socket.sendall(connection.frame(again))
        for (code, text), count in sorted(told.items(), key=str):
            print(count, code, text, flush=True)


def task(queue, kind):
    return field(1, field(1, queue) + field(2, kind))


def wait_for(first=1, count=1):
    return field(1, b''.join(map(varint, range(int(first), int(first) + int(count))))) + field(2, 60000)


def attempt(task_id, token):
    return field(1, task_id) + field(2, token)


def kinds(known):
    """Returns kind -> (number of calls, the N-th call of the backlog, the N-th call beside it); a call is method, body.
    `known` is a task that waits. The attempts and workers of the other ids never existed. Heartbeats are missing: one
    statement has 1,000, and a connection may not have enough for several."""
    flood, mine = field(2, b'flood'), field(2, b'mine')
    return {
        'submit': (30, lambda n: ('TaskService/Submit', task(b'flood', b'nothing') * 2000),
                   lambda n: ('TaskService/Submit', task(b'mine', b'nothing'))),
        'new_types': (60, lambda n: ('TaskService/Submit', b''.join(task(b'flood', b'type-%d-%d' % (n, i)) for i in range(500))),
                      lambda n: ('TaskService/Submit', task(b'mine', b'type-%d' % n))),
        'cancel': (30, lambda n: ('TaskService/Cancel', field(3, flood)), lambda n: ('TaskService/Cancel', field(1, varint(known)))),
        'control': (400, lambda n: ('QueueService/Control', field(1, b'flood') + field(2, 3 + n % 2)),
                    lambda n: ('QueueService/Control', field(1, b'mine') + field(2, 3 + n % 2))),
        'report': (30, lambda n: ('WorkerService/Report', b''.join(
            field(2, attempt(known + i, 1000 * n + i + 1) + field(3, 1)) for i in range(1000))),
                   lambda n: ('WorkerService/Report', field(2, attempt(known, n + 1) + field(3, 1)))),
        'extend': (2000, lambda n: ('WorkerService/Extend', field(2, known) + field(3, n + 1) + field(4, 1000)),
                   lambda n: ('WorkerService/Extend', field(2, known) + field(3, n + 1) + field(4, 1000))),
        'register': (2000, lambda n: ('WorkerService/Register', field(1, b'flood%d' % n) + field(4, 1) + field(6, b'type') * 50 + field(9, 1)),
                     lambda n: ('WorkerService/Register', field(1, b'mine%d' % n) + field(4, 1) + field(9, 1))),
        'get': (2000, lambda n: ('TaskService/Get', field(1, known)), lambda n: ('TaskService/Get', field(1, known))),
        'list': (200, lambda n: ('TaskService/List', field(4, 1000) + field(6, field(5, b'x'))),
                 lambda n: ('TaskService/List', field(4, 1) + field(6, mine))),
        'stats': (200, lambda n: ('AdminService/Stats', b''), lambda n: ('AdminService/Stats', b'')),
    }


def fetch(incarnation):
    return 'WorkerService/Fetch', field(1, incarnation) + field(2, 1) + field(3, 1) + field(7, 60000)


STRANGERS = {'fetch': (2000, lambda n: fetch(STRANGER + n), lambda n: fetch(2 * STRANGER + n))}


def receive(connection):
    """Waits for answers; returns their codes."""
    answers = []
    while not answers:
        answers = connection.answers()
    return [code for code, _ in answers]


def begin(greedy, backlog, count):
    """Sends a backlog, and returns the codes of what is answered when the manager works on the rest, at least a half."""
    while True:
        greedy.socket.sendall(b''.join(greedy.frame(envelope(*backlog(n))) for n in range(count)))
        codes = receive(greedy)
        while select.select([greedy.socket], [], [], 0)[0]:
            codes += receive(greedy)
        if len(codes) <= count / 2:
            return codes
        while len(codes) < count:  # it was faster than this process
            codes += receive(greedy)


def turns(url, of):
    for kind, (count, backlog, call) in of.items():
        greedy, other = Connection(url), Connection(url)
        codes, times, before = [], [], 0
        for n in range(6):  # the last one beside the backlog
            frame = other.frame(envelope(*call(n)))
            if n == 5:
                codes = begin(greedy, backlog, count)
                before = len(codes)
            begun = time.monotonic()
            other.socket.sendall(frame)
            while n == 5 and other.socket not in select.select([other.socket, greedy.socket], [], [])[0]:
                codes += receive(greedy)
            answered = len(codes) - before
            code = receive(other)[0]
            times.append(int(1000 * (time.monotonic() - begun)))
        while len(codes) < count:
            codes += receive(greedy)
        print(kind, answered, count - before, times[5], sorted(times[:5])[2], code, *sorted(set(codes)), flush=True)


BY_SOCKET = {}


def connect(url):
    connection = Connection(url)
    BY_SOCKET[connection.socket] = connection
    return connection


def main():
    url, what, arguments = sys.argv[1], sys.argv[2], sys.argv[3:]
    again = None
    if what in ('turns', 'strangers'):
        turns(url, kinds(int(arguments[0])) if what == 'turns' else STRANGERS)
        return
    if what == 'waits':
        c = connect(url)
        wait = wait_for(*arguments[1:])
        for _ in range(int(arguments[0])):
            c.socket.sendall(c.frame(envelope('TaskService/Wait', wait)))
    elif what == 'fetches':
        c = connect(url)
        first = int((arguments + [STRANGER])[1])
        resent = field(8, 1) if 'again' in arguments else b''
        c.socket.sendall(b''.join(
            c.frame(envelope('WorkerService/Fetch', field(1, first + n) + field(2, 1) + field(3, 1) + field(7, 60000) + resent))
            for n in range(int(arguments[0]))))
    elif what == 'reads':
        for _ in range(int(arguments[0])):
            c = connect(url)
            for _ in range(int(arguments[1])):
                c.socket.sendall(c.frame(envelope('ScheduleService/List')))
    elif what == 'announce':
        for _ in range(int(arguments[0])):
            connect(url).socket.sendall(struct.pack('>QI', int(arguments[1]), 1 << 31 | 1))
    elif what == 'connections':
        wait = wait_for(*arguments[1:])
        for _ in range(int(arguments[0])):
            c = connect(url)
            try:
                c.socket.sendall(c.frame(envelope('TaskService/Wait', wait)))
            except OSError:
                pass
    elif what == 'idle':
        for _ in range(int(arguments[0])):
            connect(url)
    elif what == 'submits':
        c = connect(url)
        task = field(1, field(1, b'flood') + field(2, b'nothing'))
        c.socket.sendall(b''.join(
            c.frame(envelope('TaskService/Submit', task * int(arguments[1]))) for _ in range(int(arguments[0]))))
    elif what == 'types':
        c = connect(url)
        count, tasks = int(arguments[0]), int(arguments[1])
        c.socket.sendall(b''.join(
            c.frame(envelope('TaskService/Submit', b''.join(
                field(1, field(1, b'flood') + field(2, b'type%d' % (n * tasks + i))) for i in range(tasks))))
            for n in range(count)))
    elif what == 'gets':
        again = envelope('TaskService/Get', field(1, int(arguments[1])))
        for _ in range(int(arguments[0])):
            c = connect(url)
            c.socket.sendall(c.frame(again))
    elif what == 'large':
        body = field(1, field(1, b'flood') + field(2, b'nothing') + field(3, b'x' * int(arguments[1])))
        for _ in range(int(arguments[0])):
            c = connect(url)
            c.socket.sendall(c.frame(envelope('TaskService/Submit', body)))
    elif what == 'token':
        c = connect(url)
        c.socket.sendall(c.frame(envelope('AdminService/Ping', token=b't' * int(arguments[0]))))
    print('ready', flush=True)
    while os.path.exists(os.environ.get('GREEDY_UNREAD', '')):
        for s in select.select(list(BY_SOCKET), [], [], 0)[0]:
            BY_SOCKET[s].got += s.recv(65536)
        time.sleep(0.5)
    listen(list(BY_SOCKET), again)


main()
