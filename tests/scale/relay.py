#!/usr/bin/env python3
"""Forwards calls from commands to a manager, and measures how long the manager takes to answer each call.

	relay.py LISTEN TO FILE

LISTEN and TO are ports of 127.0.0.1. For each answered call, except pings, it appends a line "METHOD MS" to FILE: the
time from when it has received the complete call until it has received the complete answer. It writes the line before it
forwards the answer.
"""

import asyncio
import re
import struct
import sys
import time

GREETING = 8  # bytes of nng's wire protocol (common/rpc/frame.h), before the frames
METHOD = re.compile(rb"/reeve\.v1\.\w+/(\w+)")
METHOD_WITHIN = 200  # of a call's bytes


async def frames(reader, writer, seen):
	"""Forwards frames from reader to writer. Calls `seen` with each frame first."""
	try:
		writer.write(await reader.readexactly(GREETING))
		while True:
			head = await reader.readexactly(8)
			body = await reader.readexactly(struct.unpack(">Q", head)[0])
			seen(body)
			writer.write(head + body)
			await writer.drain()
	except (asyncio.IncompleteReadError, ConnectionError):
		pass
	finally:
		writer.close()


class Relay:
	def __init__(self, to, path):
		self.to = to
		self.file = open(path, "a", encoding="ascii", buffering=1)  # the script that measures empties it

	async def connected(self, reader, writer):
		calls = {}  # id -> (method, since)

		def asked(body):
			method = METHOD.search(body[:METHOD_WITHIN])
			calls[body[:4]] = (method[1].decode() if method else "?", time.monotonic())

		def answered(body):
			method, since = calls.pop(body[:4], ("?", time.monotonic()))
			if method != "Ping":
				self.file.write(f"{method} {(time.monotonic() - since) * 1000:.1f}\n")

		to_reader, to_writer = await asyncio.open_connection("127.0.0.1", self.to)
		await asyncio.gather(frames(reader, to_writer, asked), frames(to_reader, writer, answered))


async def main():
	listen, to, path = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
	async with await asyncio.start_server(Relay(to, path).connected, "127.0.0.1", listen) as server:
		await server.serve_forever()


asyncio.run(main())
