#!/usr/bin/env python3
"""Fails if modules of ROOT (or of this repository) include each other in a circle.

A module is NAME.c and NAME.h, with NAME_internal.h and the NAME_*.c that include it. A module that needs one which includes it is to
be given a function at its creation instead. Circles that are known are listed in ALLOWED: none is to be added, and one that has
gone, or has become smaller, is to be taken out here.
"""

import re
import sys
from pathlib import Path

FOLDERS = ("common", "manager", "worker", "client")

ALLOWED = (
    {"manager/store/fair", "manager/store/internal", "manager/store/role", "manager/store/store"},
    {
        "worker/accepts",
        "worker/attempt",
        "worker/courier",
        "worker/handler",
        "worker/heartbeat",
        "worker/held",
        "worker/orders",
        "worker/outbox",
        "worker/session",
        "worker/slots",
        "worker/state",
    },
)

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]+"([^"]+)"', re.MULTILINE)


def read(root):
    """The files by their paths, each with those of ours that it includes."""
    files = {}
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("*.[ch]")):
            files[path.relative_to(root).as_posix()] = INCLUDE.findall(path.read_text())
    return {path: [i for i in includes if i in files] for path, includes in files.items()}


def module_of(path, includes):
    stem = path[:-2]
    if stem.endswith("_internal"):
        return stem.removesuffix("_internal")
    for header in includes:
        name = header.removesuffix("_internal.h")
        if name != header and stem.startswith(name + "_"):
            return name
    return stem


def circles(graph):
    """The strongly connected components of more than one module (Tarjan, 1972)."""
    number, lowest, stack, found = {}, {}, [], []

    def visit(module):
        number[module] = lowest[module] = len(number)
        stack.append(module)
        for other in sorted(graph[module]):
            if other not in number:
                visit(other)
                lowest[module] = min(lowest[module], lowest[other])
            elif other in stack:
                lowest[module] = min(lowest[module], number[other])
        if lowest[module] == number[module]:
            at = stack.index(module)
            if len(stack) - at > 1:
                found.append(set(stack[at:]))
            del stack[at:]

    for module in sorted(graph):
        if module not in number:
            visit(module)
    return found


def main():
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parents[2]
    files = read(root)
    module = {path: module_of(path, includes) for path, includes in files.items()}
    graph = {name: set() for name in module.values()}
    for path, includes in files.items():
        graph[module[path]].update(module[i] for i in includes if module[i] != module[path])
    if not graph:
        sys.exit(f"there are no modules in {root}")
    found = circles(graph)
    problems = [f"include each other in a circle: {' '.join(sorted(c))}" for c in found if c not in ALLOWED]
    problems += [f"is not a circle any more: {' '.join(sorted(c))}" for c in ALLOWED if c <= set(graph) and c not in found]
    print(f"{len(graph)} modules", *problems, sep="\n")
    sys.exit(bool(problems))


main()
