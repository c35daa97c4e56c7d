"""Schedules for everything that isn't polymerized: fused, vectorised, parallel, any shape."""

from moonpoly.compiler.schedule.driver import (
    FALLBACK,
    RULE,
    ScheduleCPU,
    ScheduleReport,
    schedule_cpu,
)

__all__ = ["FALLBACK", "RULE", "ScheduleCPU", "ScheduleReport", "schedule_cpu"]
