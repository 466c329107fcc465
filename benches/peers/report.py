"""The measurements as Markdown."""

import math
import os
import pathlib
import platform


def table(head: list[str], rows: list[list]) -> str:
    """A table whose first column is text and whose others are numbers."""
    lines = [head, ["---"] + ["---:"] * (len(head) - 1), *rows]
    return "\n".join("| " + " | ".join(str(cell) for cell in line) + " |" for line in lines)


def machine() -> str:
    """Processor, cores, memory and system, in one line."""
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
    """Rounded down, so that 1.0000 is 1."""
    if part is None or whole is None:
        return "-"
    return f"{math.floor(part / whole * 10_000) / 10_000:.4f}" if whole else "-"


def times(value: float, reference: float) -> str:
    return f"{value / reference:.1f}" if reference else "-"
