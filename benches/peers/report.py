"""Formats measurements as Markdown."""

import math
import os
import pathlib
import platform


def table(head: list[str], rows: list[list]) -> str:
    """Returns a table. The first column is text, and the other columns are numbers."""
    lines = [head, ["---"] + ["---:"] * (len(head) - 1), *rows]
    return "\n".join("| " + " | ".join(str(cell) for cell in line) + " |" for line in lines)


def machine() -> str:
    """Describes the processor, cores, memory and system of this machine in one line."""
    cpu = next(
        (line.split(":", 1)[1].strip() for line in lines_of("/proc/cpuinfo") if line.startswith("model name")),
        platform.machine(),
    )
    system = next(
        (
            line.split("=", 1)[1].strip('"')
            for line in lines_of("/etc/os-release")
            if line.startswith("PRETTY_NAME")
        ),
        platform.system(),
    )
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return f"{cpu}, {memory:.0f} GiB of memory, {system}, Linux {platform.release()}"


def lines_of(path: str) -> list[str]:
    try:
        return pathlib.Path(path).read_text().splitlines()
    except OSError:
        return []


def seconds(value: float) -> str:
    return f"{value:.2f}" if value < 10 else f"{value:,.1f}"


def mebibytes(value: float) -> str:
    return f"{value / 2**20:,.0f}"


def share(part: int | None, whole: int | None) -> str:
    """Formats a share, rounded down so that only a share of 1 is shown as 1.0000."""
    if part is None or whole is None:
        return "-"
    return f"{math.floor(part / whole * 10_000) / 10_000:.4f}" if whole else "-"


def times(value: float, reference: float) -> str:
    return f"{value / reference:.1f}" if reference else "-"
