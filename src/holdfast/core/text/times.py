"""Writes moments and durations for people. Times are in UTC."""

from math import isfinite
from time import gmtime, strftime
from typing import Final

YEAR_10000: Final = 253_402_300_800
"""The end of the moments that ``strftime`` can write with four digits of a year."""


def moment(at: float) -> str:
    """``2026-03-01 14:02:11 UTC``; the plain number if the moment is outside the calendar."""
    return strftime("%Y-%m-%d %H:%M:%S UTC", gmtime(at)) if is_told(at) else f"{at:g} s"


def clock_time(at: float) -> str:
    """``14:02:11``."""
    return strftime("%H:%M:%S", gmtime(at)) if is_told(at) else f"{at:g} s"


def is_told(at: float) -> bool:
    """Whether the calendar has this moment. Imported events may claim any time."""
    return -YEAR_10000 / 5 < at < YEAR_10000


def ago(seconds: float) -> str:
    """A past moment: ``3 min ago``."""
    return f"{span(seconds)} ago" if seconds >= 1 else "just now"


def span(seconds: float) -> str:
    """A duration in its two largest units; 59.7 s is a minute."""
    seconds = max(0.0, seconds)
    if seconds < 0.000_999_5:
        return f"{seconds * 1e6:.0f} µs"
    if seconds < 0.999_5:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    if not isfinite(seconds):  # imported events may claim any time
        return f"{seconds} s"
    whole = round(seconds) if seconds < 3600 else int(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    if whole < 86_400:
        return f"{whole // 3600} h {whole % 3600 // 60} min"
    return f"{whole // 86_400} d {whole % 86_400 // 3600} h"
