#!/usr/bin/env python3
"""Prints the statements and functions of ROOT/sql (by default of this repository) that set a task's status, as they create, change
or move its row, and that state-table neither runs nor reaches by what it runs. Exits with 1 if there are any."""

import re
import sys
from pathlib import Path

SETS = re.compile(
    r"\binsert into (tasks|task_history)\b|\bdelete from (tasks|task_history)\b"
    r"|\bupdate (tasks|task_history)\b[^;]*?\bset\b(?:(?!\b(where|from)\b)[^;])*?\bstatus ="
)

root = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parents[2]


def read(path):
    """The text of a file, with the parts that it includes."""
    return re.sub(
        r"^\{part (\w+)\}", lambda part: read(root / f"sql/parts/{part[1]}.sql"), re.sub(r"--.*", "", path.read_text()), flags=re.M
    )


functions = {path.stem: read(path) for path in (root / "sql/functions").glob("*.sql")}
statements = {path.stem: read(path) for path in (root / "sql/statements").glob("*.sql")}
tool = "".join(path.read_text() for path in Path(__file__).parent.glob("state_*.c"))

reached = {f"statements/{name.lower()}" for name in re.findall(r"\bSQL_([A-Z_]+)\b", tool)}
reached |= {f"functions/{name}" for name in functions if re.search(rf"\b{name}\(", tool)}
texts = {f"functions/{name}": text for name, text in functions.items()}
texts |= {f"statements/{name}": text for name, text in statements.items()}
todo = list(reached)
while todo:
    text = texts.get(todo.pop(), "")
    found = {f"functions/{name}" for name in set(re.findall(r"\b(\w+)\(", text)) & set(functions)} - reached
    reached |= found
    todo += found

missed = sorted(name for name, text in texts.items() if SETS.search(text) and name not in reached)
print(f"{sum(bool(SETS.search(text)) for text in texts.values())} set a status", *missed, sep="\n")
sys.exit(bool(missed))
