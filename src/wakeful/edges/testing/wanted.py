"""A job that is looked for among those that are there, and how they differ from it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from wakeful.payload.encode import to_text
from wakeful.values.job import JobReport
from wakeful.values.wording import shown

_MOST_SHOWN = 10
_ABSENT = object()


def as_stored(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments as a job's payload has them: a UUID, for one, is a text there."""
    stored: dict[str, Any] = json.loads(to_text(dict(arguments)))
    return stored


def fits(job: JobReport, arguments: Mapping[str, Any]) -> bool:
    """Whether the job's payload has these arguments, and maybe others."""
    return all(job.payload.get(name, _ABSENT) == value for name, value in arguments.items())


def not_found(task: str, arguments: Mapping[str, Any], there: Sequence[JobReport]) -> str:
    """What to tell when no job fits: those of the same task, argument by argument, the nearest first."""
    asked = f" with {_written(arguments)}" if arguments else ""
    same = [job for job in there if job.task == task]
    lines = [f"No job of task {task} was enqueued{asked}."]
    if same:
        lines.append(f"Of this task there {'is' if len(same) == 1 else 'are'} {len(same)}:")
        nearest = sorted(same, key=lambda job: len(_differences(job, arguments)))
        for job in nearest[:_MOST_SHOWN]:
            lines.append(f"  {job.state} {job.id}")
            lines += [f"    {line}" for line in _compared(job, arguments)]
        if len(same) > _MOST_SHOWN:
            lines.append(f"  … and {len(same) - _MOST_SHOWN} more")
    others = Counter(job.task for job in there if job.task != task)
    if others:
        lines.append("Of others: " + ", ".join(f"{name} ({count})" for name, count in sorted(others.items())))
    elif not same:
        lines.append("Nothing was enqueued at all.")
    return "\n".join(lines)


def found(task: str, arguments: Mapping[str, Any], there: Sequence[JobReport]) -> str:
    """What to tell when there should be no such job."""
    asked = f" with {_written(arguments)}" if arguments else ""
    listed = [f"  {job.state} {job.id} {_written(job.payload)}" for job in there[:_MOST_SHOWN]]
    return "\n".join([f"{len(there)} of task {task} {'was' if len(there) == 1 else 'were'} enqueued{asked}:", *listed])


def _compared(job: JobReport, arguments: Mapping[str, Any]) -> list[str]:
    """A line for each argument: + wanted, - what is there instead, and two blanks for what is as wanted."""
    lines = []
    for name in [*arguments, *(name for name in job.payload if name not in arguments)]:
        there, asked = job.payload.get(name, _ABSENT), arguments.get(name, _ABSENT)
        if asked is _ABSENT or there == asked:
            lines.append(f"  {name} = {shown(there, 200)}")
            continue
        if there is not _ABSENT:
            lines.append(f"- {name} = {shown(there, 200)}")
        lines.append(f"+ {name} = {shown(asked, 200)}")
    return lines or ["  (no arguments)"]


def _differences(job: JobReport, arguments: Mapping[str, Any]) -> list[str]:
    return [name for name, value in arguments.items() if job.payload.get(name, _ABSENT) != value]


def _written(arguments: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={shown(value, 200)}" for name, value in arguments.items())
