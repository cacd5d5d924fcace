#!/usr/bin/env python3
"""A terminal for a full-screen program: runs it on a pseudo terminal, follows what the screen shows, and does as told.

    terminal.py ROWSxCOLUMNS STEP... -- COMMAND...

Steps: `wait:REGEX` until the screen matches, `key:TEXT`, `size:ROWSxCOLUMNS`, `signal:NAME`, `stopped` waits until it is stopped,
`show` prints the screen, `end` waits for the end and prints the exit code. A screen with a line that is too long matches nothing. Fails if a step takes a minute, or
if the program has ended and the terminal is not as it was."""

import fcntl
import os
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time

LIMIT = 60  # seconds for a step
SEQUENCE = re.compile(r"\x1b\[(\??)([0-9;]*)([A-Za-z])")


class Screen:
    def __init__(self, rows, columns):
        self.modes = set()
        self.resize(rows, columns)

    def resize(self, rows, columns):
        self.rows, self.columns = rows, columns
        self.lines = [""] * rows
        self.row = self.column = 0
        self.overflow = False  # a line was longer than the screen

    def text(self):
        return "\n".join(line.rstrip() for line in self.lines)

    def feed(self, text):
        """Takes output, and returns the beginning of a sequence that is not complete yet."""
        while text:
            found = SEQUENCE.match(text)
            if text[0] == "\x1b" and not found:
                if len(text) > 20:
                    raise SystemExit(f"unknown sequence: {text[:20]!r}")
                return text
            if found:
                self.control(*found.groups())
                text = text[found.end() :]
            else:
                self.character(text[0])
                text = text[1:]
        return ""

    def control(self, private, number, letter):
        if private:
            (self.modes.add if letter == "h" else self.modes.discard)(number)
        elif letter == "H":
            self.row = self.column = 0
            self.overflow = False
        elif letter == "J":
            first = 0 if number == "2" else self.row
            self.lines[first:] = [""] * (self.rows - first)
        elif letter == "K":
            self.lines[self.row] = ""
        elif letter != "m":
            raise SystemExit(f"unknown sequence: {number}{letter}")

    def character(self, character):
        if character == "\r":
            self.column = 0
        elif character == "\n":
            self.row = min(self.row + 1, self.rows - 1)
        else:
            self.overflow |= self.column >= self.columns
            self.lines[self.row] = self.lines[self.row][: self.column].ljust(self.column) + character
            self.column += 1


def size_of(text):
    return [int(number) for number in text.split("x")]


def main():
    split = sys.argv.index("--")
    rows, columns = size_of(sys.argv[1])
    screen = Screen(rows, columns)
    master, slave = os.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    before = termios.tcgetattr(slave)
    program = subprocess.Popen(
        sys.argv[split + 1 :],
        stdin=slave,
        stdout=slave,
        start_new_session=True,
        env=dict(os.environ, TERM="xterm"),
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
    )
    rest = b""
    pending = ""

    def read(seconds):
        nonlocal rest, pending
        if not select.select([master], [], [], seconds)[0]:
            return
        rest += os.read(master, 65536)
        good = rest.decode(errors="ignore")
        rest = rest[len(good.encode()) :] if len(rest) - len(good.encode()) < 4 else b""
        pending = screen.feed(pending + good)

    def until(done, what):
        end = time.monotonic() + LIMIT
        while not done():
            if time.monotonic() > end:
                raise SystemExit(f"in vain: {what}; the screen:\n{screen.text()}")
            read(0.05)

    for step in sys.argv[2:split]:
        name, _, value = step.partition(":")
        if name == "wait":
            until(lambda: not screen.overflow and re.search(value, screen.text(), re.M), step)
        elif name == "key":
            os.write(master, value.encode())
        elif name == "size":
            screen.resize(*size_of(value))
            fcntl.ioctl(master, termios.TIOCSWINSZ, struct.pack("HHHH", *size_of(value), 0, 0))
        elif name == "signal":
            program.send_signal(getattr(signal, "SIG" + value))
        elif name == "stopped":
            until(lambda: open(f"/proc/{program.pid}/stat").read().split()[2] == "T", step)
            if termios.tcgetattr(slave) != before:
                raise SystemExit("the terminal is not as before")
            screen.resize(screen.rows, screen.columns)
        elif name == "show":
            print(screen.text())
        elif name == "end":
            until(lambda: program.poll() is not None, "its end")
            read(0.2)
            after = termios.tcgetattr(slave)
            if before != after or {"1049", "25"} & screen.modes != {"25"}:
                raise SystemExit(f"the terminal is not as before: {screen.modes} {before} {after}")
            print("exit", program.returncode)
        else:
            raise SystemExit(f"no step {step}")


main()
