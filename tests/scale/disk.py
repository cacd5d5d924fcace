#!/usr/bin/env python3
"""Reads pages of a file from the disk, to tell a slow statement from a slow disk.

	disk.py FILE OUT

Every 20 ms it reads a page of 8 KiB, as PostgreSQL does, of FILE, which it first fills with 64 MiB. It drops the file
from the system's page cache before each read. It appends a line to OUT with the time that each read took, in ms.
"""

import os
import random
import sys
import time

PAGE, PAGES = 8192, 8192


def main():
	file = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT, 0o600)
	for _ in range(PAGES):
		os.write(file, os.urandom(PAGE))
	os.fsync(file)
	with open(sys.argv[2], "a", encoding="ascii", buffering=1) as out:  # the script that measures empties it
		while True:
			os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
			begin = time.monotonic()
			os.pread(file, PAGE, random.randrange(PAGES) * PAGE)
			out.write(f"{(time.monotonic() - begin) * 1000:.1f}\n")
			time.sleep(0.02)


main()
