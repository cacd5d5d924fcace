#!/usr/bin/env python3
"""Runs clang-tidy on C files, with as many processes as there are processors.

	tidy.py BUILD [FILE...]		default: all files that compile_commands.json of the folder BUILD has

Files that compile_commands.json does not have, and generated ones, are left out. A file that passed is checked again
only if its preprocessed source, its compile command, a .clang-tidy or the version of clang-tidy has changed: BUILD/tidy
has a hash of these for each file that passed. Prints what clang-tidy reports, and at the end how many files there were
and how many of them it checked. The exit code is 1 if there is a report.
"""
import concurrent.futures
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


def hash_of(file, commands, version):
    """The hash of all that the result depends on."""
    parts = [version] + [
        config.read_bytes() for folder in file.parents if (config := folder / ".clang-tidy").exists()
    ]
    for folder, command in commands:
        output = command.index("-o")
        preprocess = command[:output] + command[output + 2 :] + ["-E", "-C"]
        source = subprocess.run(preprocess, cwd=folder, stdout=subprocess.PIPE, check=True).stdout
        parts += [shlex.join(command).encode(), source]
    whole = hashlib.sha256()
    for part in parts:
        whole.update(hashlib.sha256(part).digest())
    return whole.hexdigest()


def check(build, file, commands, version):
    """Returns whether the file was checked now, and what is wrong with it."""
    passed = build / "tidy" / str(file).strip("/").replace("/", "%")
    content = hash_of(file, commands, version)
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
    with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        results = list(pool.map(lambda file: check(build, file, commands[file], version), files))
    for _, report in results:
        print(report, end="")
    print(f"{len(files)} files, {sum(checked for checked, _ in results)} checked")
    sys.exit(any(report for _, report in results))


main()
