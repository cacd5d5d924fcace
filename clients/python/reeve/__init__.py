"""Submits, awaits and runs tasks of Reeve by HTTP (docs/languages.md). It needs only the standard library."""

from .client import Client, Error, TaskFailed
from .task import Fatal, Retry, Task
from .worker import Worker

__all__ = ["Client", "Error", "Fatal", "Retry", "Task", "TaskFailed", "Worker"]
