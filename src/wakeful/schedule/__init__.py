"""Schedules as users meet them: declared beside a task, or made and steered while workers run."""

from wakeful.schedule.declare import Declared, ScheduleDecorator, ScheduleOptions, declared
from wakeful.schedule.door import Schedules

__all__ = ["Declared", "ScheduleDecorator", "ScheduleOptions", "Schedules", "declared"]
