#!/usr/bin/env python3
"""Finds retired words in all sources, in the names of files, and in the documentation.

	tests/tools/words.py [FOLDER]

FOLDER is a work tree (default: this project). tests/tools/retired_words has the words. Prints FILE:LINE: WORD ->
REPLACEMENT for each. The exit code is 1 if there are any.
"""
import os
import re
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
PLACES = ("manager", "common", "client", "clients", "worker", "web", "proto", "sql", "docs", "examples", "deploy", "bench", "tests", ".ci",
	"README.md", "CONTRIBUTING.md", "CHANGELOG.md", "CMakeLists.txt")
# They name what earlier versions had.
EXCEPTIONS = re.compile(r"^sql/migrations/|^tests/e2e/data/version_8|^tests/tools/retired_words$|\.pyc$")
TEST_NAME = re.compile(r"`[a-z_]+/[^`]*`")
CODE = re.compile(r"`[^`]*`") # in CHANGELOG.md also what earlier versions had


def retired():
	with open(os.path.join(HERE, "retired_words"), encoding="utf-8") as lines:
		rows = [line.rstrip("\n").split("|") for line in lines if not line.startswith("#")]
	return {word: (instead, tuple(places)) for word, instead, *places in rows}


def files(top):
	for place in PLACES:
		path = os.path.join(top, place)
		if os.path.isfile(path):
			yield path
		for folder, _, names in os.walk(path):
			yield from (os.path.join(folder, name) for name in sorted(names))


def main():
	top = sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(os.path.dirname(HERE))
	words = retired()
	longest_first = sorted(words, key=len, reverse=True)
	pattern = re.compile("(?<![A-Za-z])(" + "|".join(map(re.escape, longest_first)) + ")(?![A-Za-z])", re.I)
	found = 0
	for path in files(top):
		name = os.path.relpath(path, top)
		if EXCEPTIONS.search(name):
			continue
		left_out = CODE if name == "CHANGELOG.md" else TEST_NAME
		texts = [(name, name)]
		with open(path, encoding="utf-8", errors="replace") as lines:
			texts += [(f"{name}:{number}", left_out.sub("", line)) for number, line in enumerate(lines, 1)]
		for place, text in texts:
			for match in pattern.finditer(text):
				instead, places = words[match.group().lower()]
				if not places or name.startswith(places):
					found += 1
					print(f"{place}: {match.group()} -> {instead}")
	return 1 if found else 0


if __name__ == "__main__":
	sys.exit(main())
