#!/usr/bin/env python3
"""Checks references between files.

	tests/tools/references.py [FOLDER]

FOLDER is a work tree (default: this project). Links in pages lead to files and headings that exist; each page that
a source names exists; each number of an invariant (I3) is in docs/invariants.md, and each of that page is used in code or
tests. Prints what is wrong, one line each. The exit code is 1 if anything is.
"""
import os
import re
import sys

SOURCES = re.compile(r"\.(c|h|sql|proto|sh|bash|py|awk|pml|txt)$|/[a-z_-]+$")
SKIP = re.compile(r"/(\.git|build[^/]*|__pycache__)(/|$)")
LINK = re.compile(r"\]\(([^)\s]+)\)")
PAGE = re.compile(r"(?<![\w/.{*$])(?:[\w.-]+/)*[\w-]+\.md\b")
NUMBER = re.compile(r"(?<![\w-])I([0-9]{1,2})(?![\w-])")


def read(path):
	with open(path, encoding="utf-8", errors="replace") as file:
		return file.read()


def headings(text):
	"""Returns the anchors of a page, as GitHub makes them."""
	titles = re.findall(r"^#+ (.*)$", re.sub(r"^```.*?^```", "", text, flags=re.S | re.M), re.M)
	anchors = {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}
	return anchors | set(re.findall(r'<a id="([^"]+)">', text))


def link_problem(path, target):
	name, _, anchor = target.partition("#")
	page = os.path.normpath(os.path.join(os.path.dirname(path), name)) if name else path
	if not os.path.exists(page):
		return f"leads to {name}, which does not exist"
	if anchor and anchor not in headings(read(page)):
		return f"leads to the heading #{anchor}, which {os.path.basename(page)} does not have"
	return None


def main():
	top = sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
	problems, used = [], set()
	invariants = os.path.join(top, "docs/invariants.md")
	declared = set(re.findall(r"^\| I([0-9]+) \|", read(invariants), re.M))
	for folder, _, names in os.walk(top):
		if SKIP.search(folder[len(top):] + "/"):
			continue
		for name in sorted(names):
			path = os.path.join(folder, name)
			shown = os.path.relpath(path, top)
			if name.endswith(".md"):
				text = read(path)
				for target in LINK.findall(text):
					problem = None if re.match(r"[a-z]+:", target) else link_problem(path, target)
					if problem:
						problems.append(f"{shown}: a link {problem}")
			elif SOURCES.search("/" + shown):
				text = read(path)
				for page in PAGE.findall(text):
					if not any(os.path.exists(os.path.join(base, page)) for base in (top, folder, os.path.join(top, "docs"))):
						problems.append(f"{shown}: names {page}, which does not exist")
				used.update(NUMBER.findall(text))
			else:
				continue
			if path != invariants:
				problems += [f"{shown}: I{n} is not in docs/invariants.md" for n in sorted(set(NUMBER.findall(text)) - declared)]
	problems += [f"docs/invariants.md: no source refers to I{n}" for n in sorted(declared - used)]
	print("\n".join(sorted(problems)), end="\n" if problems else "")
	return 1 if problems else 0


if __name__ == "__main__":
	sys.exit(main())
