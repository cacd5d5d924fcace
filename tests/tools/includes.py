#!/usr/bin/env python3
"""Checks the #include lines and the READMEs of ROOT (or of this repository).

Each folder of FOLDERS and OTHERS that has files has a README.md, and so has each folder of clients, examples and tests.

Each folder's README.md has a line "Depends on: A, B." with the folders and libraries that its files include, and no others. A
folder of public headers includes only the C library and the generated messages.

No modules include each other in a circle, and no folders. A module is NAME.c and NAME.h, with NAME_internal.h and the NAME_*.c that include
it. Give a module that needs one of those that include it a function at its creation instead.
"""

import re
import sys
from pathlib import Path

FOLDERS = ("common", "manager", "worker", "client")
OTHERS = ("bench", "clients", "deploy", "examples", "proto", "sql", "tests", "web")

# What a header that is no file of FOLDERS belongs to, by the beginning of its name. Headers of the C library are not listed.
ORIGINS = {
    "reeve/v1/": "proto",
    "reeve/client.h": "client/include/reeve",
    "reeve/worker.h": "worker/include/reeve",
    "sql/": "sql",
    "web/": "web",
    "curl/": "libcurl",
    "event2/": "libevent",
    "http_parser.h": "http-parser",
    "nghttp2/nghttp2.h": "nghttp2",
    "jansson.h": "jansson",
    "libpq-fe.h": "libpq",
    "nng/": "nng",
    "openssl/": "openssl",
    "protobuf-c/": "protobuf-c",
    "uthash.h": "uthash",
    "utlist.h": "uthash",
    "zlib.h": "zlib",
}

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]+[<"]([^>"]+)[>"]', re.MULTILINE)
DEPENDS = re.compile(r"^Depends on: (.*?)\.$", re.MULTILINE | re.DOTALL)


def read(root):
    """The files by their paths, each with all that it includes."""
    files = {}
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("*.[ch]")):
            files[path.relative_to(root).as_posix()] = INCLUDE.findall(path.read_text())
    return files


def folder_of(header, files):
    """Where a header comes from; None: the C library."""
    if header in files:
        return header.rsplit("/", 1)[0]
    return next((origin for start, origin in ORIGINS.items() if header.startswith(start)), None)


def dependency_problems(root, files):
    used = {}
    for path, includes in files.items():
        folder = path.rsplit("/", 1)[0]
        used.setdefault(folder, set()).update(folder_of(i, files) for i in includes)
    for folder, found in sorted(used.items()):
        found -= {None, folder}
        if folder.endswith("/include/reeve"):
            if found - {"proto"}:
                yield f"{folder}: public headers include only the C library and proto, not {' '.join(sorted(found))}"
            continue
        readme = root / folder / "README.md"
        match = DEPENDS.search(readme.read_text()) if readme.exists() else None
        if not match:
            yield f"{folder}/README.md has no line 'Depends on: ….'"
            continue
        listed = set(re.findall(r"`([^`]+)`", match[1]))
        for origin in sorted(found - listed):
            yield f"{folder} depends on {origin}; its README.md does not list that"
        for origin in sorted(listed - found):
            yield f"{folder} does not depend on {origin}; its README.md lists it"


def missing_readmes(root):
    folders = [root / name for name in FOLDERS + OTHERS]
    folders += [path for name in ("clients", "examples", "tests") for path in sorted((root / name).glob("*/"))]
    for path in folders:
        if path.is_dir() and any(p.is_file() for p in path.iterdir()) and not (path / "README.md").exists():
            yield f"{path.relative_to(root)} has no README.md"


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
    everything = read(root)
    files = {path: [i for i in includes if i in everything] for path, includes in everything.items()}
    module = {path: module_of(path, includes) for path, includes in files.items()}
    graph = {name: set() for name in module.values()}
    for path, includes in files.items():
        graph[module[path]].update(module[i] for i in includes if module[i] != module[path])
    if not graph:
        sys.exit(f"there are no modules in {root}")
    folders = {}
    for path, includes in files.items():
        folder = path.rsplit("/", 1)[0]
        folders.setdefault(folder, set()).update(i.rsplit("/", 1)[0] for i in includes)
    found = circles(graph) + circles(folders)
    problems = [f"include each other in a circle: {' '.join(sorted(c))}" for c in found]
    problems += [*dependency_problems(root, everything), *missing_readmes(root)]
    print(f"{len(graph)} modules", *problems, sep="\n")
    sys.exit(bool(problems))


main()
