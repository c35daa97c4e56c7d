"""Schedules for everything that isn't polymerized: fused, vectorised, parallel, any shape."""

from moonpoly.compiler.schedule.driver import ScheduleCPU, ScheduleReport, schedule_cpu

__all__ = ["ScheduleCPU", "ScheduleReport", "schedule_cpu"]
