#!/usr/bin/env python3
"""Runs clang-tidy on C files, with as many processes as there are processors.

	tidy.py BUILD [FILE...]		default: all files that compile_commands.json of the folder BUILD has

Files that compile_commands.json does not have, and generated ones, are left out. A file that passed is checked again
only if it, a file that it includes, its compile command, a .clang-tidy or the version of clang-tidy has changed:
BUILD/tidy has a hash of these for each file that passed. What a file includes is known from its build; of a file that
is not built, the preprocessed source counts. Prints what clang-tidy reports, and at the end how many files there were
and how many of them it checked. The exit code is 1 if there is a report.
"""
import concurrent.futures
import functools
import hashlib
import json
import os
import pathlib
import shlex
import subprocess
import sys


def read_commands(build):
    """The compile commands of each file: a file can be part of several programs."""
    commands = {}
    for entry in json.loads((build / "compile_commands.json").read_text()):
        file = (pathlib.Path(entry["directory"]) / entry["file"]).resolve()
        if build / "generated" not in file.parents:
            commands.setdefault(file, []).append((entry["directory"], shlex.split(entry["command"])))
    return commands


def read_included(build):
    """The files that each object file in an up-to-date build was made of. Preprocessing takes as long as a fifth of a check."""
    included = {}
    if not (build / "build.ninja").exists():
        return included
    deps = subprocess.run(["ninja", "-C", build, "--quiet", "-t", "deps"], capture_output=True, text=True, check=True).stdout
    for entry in deps.split("\n\n"):
        head, *files = entry.strip().split("\n")
        if head.endswith("(VALID)"):
            included[head.split(":")[0]] = [name.strip() for name in files]
    return included


@functools.cache
def content_of(path):
    """The hash of a file's content."""
    return hashlib.sha256(path.read_bytes() if path.exists() else b"").digest()


def hash_of(file, commands, included, version):
    """The hash of all that the result depends on."""
    parts = [version] + [
        config.read_bytes() for folder in file.parents if (config := folder / ".clang-tidy").exists()
    ]
    for folder, command in commands:
        parts.append(shlex.join(command).encode())
        output = command.index("-o")
        if command[output + 1] in included:
            for name in included[command[output + 1]]:
                parts += [name.encode(), content_of(pathlib.Path(folder, name))]
            continue
        preprocess = command[:output] + command[output + 2 :] + ["-E", "-C"]
        parts.append(subprocess.run(preprocess, cwd=folder, stdout=subprocess.PIPE, check=True).stdout)
    whole = hashlib.sha256()
    for part in parts:
        whole.update(hashlib.sha256(part).digest())
    return whole.hexdigest()


def check(build, file, commands, included, version):
    """Returns whether the file was checked now, and what is wrong with it."""
    passed = build / "tidy" / str(file).strip("/").replace("/", "%")
    content = hash_of(file, commands, included, version)
    if passed.exists() and passed.read_text() == content:
        return False, ""
    run = subprocess.run(["clang-tidy", "--quiet", "-p", build, file], capture_output=True, text=True)
    if run.returncode != 0:
        return True, run.stdout or run.stderr
    passed.write_text(content)
    return True, ""


def main():
    build = pathlib.Path(sys.argv[1]).resolve()
    commands = read_commands(build)
    files = [file for name in sys.argv[2:] if (file := pathlib.Path(name).resolve()) in commands]
    if len(sys.argv) == 2:
        files = list(commands)
    version = subprocess.run(["clang-tidy", "--version"], stdout=subprocess.PIPE, check=True).stdout
    (build / "tidy").mkdir(exist_ok=True)
    included = read_included(build)
    with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        results = list(pool.map(lambda file: check(build, file, commands[file], included, version), files))
    for _, report in results:
        print(report, end="")
    print(f"{len(files)} files, {sum(checked for checked, _ in results)} checked")
    sys.exit(any(report for _, report in results))


main()
