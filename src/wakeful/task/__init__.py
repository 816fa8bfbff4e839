"""Tasks: functions, what is said about them, and the verbs that enqueue calls of them."""

from wakeful.task.declare import TaskDecorator, declare
from wakeful.task.spec import TaskOptions, TaskSpec
from wakeful.task.task import ContextTask, Task

__all__ = ["ContextTask", "Task", "TaskDecorator", "TaskOptions", "TaskSpec", "declare"]
