#!/usr/bin/env python3
"""Makes a manager whose dashboard has other addresses, as another version has: other_web.py MANAGER COPY

The folder's name, a hash, gets a new value of the same length, also in the compressed index.html, for which one is found whose
compressed form is as long.
"""
import os
import re
import sys
import zlib

program = open(sys.argv[1], "rb").read()
folder = re.search(rb"/web/([0-9a-f]{16})/app\.js\0", program).group(1)
for at in (match.start() for match in re.finditer(rb"\x1f\x8b\x08", program)):
    reader = zlib.decompressobj(31)
    try:
        page = reader.decompress(program[at : at + 65536])
    except zlib.error:
        continue
    if page.startswith(b"<!doctype html"):
        break
end = at + len(program[at : at + 65536]) - len(reader.unused_data)
for _ in range(10000):
    other = os.urandom(8).hex().encode()
    writer = zlib.compressobj(9, zlib.DEFLATED, 31)
    packed = writer.compress(page.replace(folder, other)) + writer.flush()
    if len(packed) == end - at:
        break
else:
    sys.exit("no other folder's page has the same compressed length")
program = program[:at] + packed + program[end:]
with open(sys.argv[2], "wb") as copy:
    copy.write(program.replace(b"/web/" + folder, b"/web/" + other))
os.chmod(sys.argv[2], 0o755)
