#!/usr/bin/env python3
"""Makes the pictures of the README from real output: docs/pictures/make.py COMMAND [REUTERS], where COMMAND is a built `resemblance`
and REUTERS the folder of Reuters-21578.

show.svg is what `resemblance show` prints on a terminal for the job of the README; speed.svg is the table of programs in
docs/benchmarks.md; report.png is the beginning of the report of Reuters-21578 at a threshold of 0.5, if its folder is given. Needs the
package rich (14), and Chromium for the report.
"""

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import tempfile
import termios
from pathlib import Path

from rich.console import Console
from rich.text import Text

HERE = Path(__file__).resolve().parent
REPOSITORY = HERE.parent.parent
COLUMNS = 108


def on_terminal(command, folder):
    """What a command prints on a terminal, with its colours."""
    driver, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 50, COLUMNS, 0, 0))
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": str(COLUMNS)}
    process = subprocess.Popen(command, cwd=folder, stdin=terminal, stdout=terminal, stderr=subprocess.DEVNULL, env=environment)
    os.close(terminal)
    printed = b""
    while True:
        try:
            part = os.read(driver, 65536)
        except OSError:
            break
        if not part:
            break
        printed += part
    if process.wait() != 0:
        sys.exit(f"{command} failed")
    return printed.decode().replace("\r\n", "\n")


def show(program):
    """The most similar pair that is no copy, as the command shows it."""
    with tempfile.TemporaryDirectory() as folder:
        os.symlink(REPOSITORY / "jobs", Path(folder) / "jobs")
        subprocess.run([program, "run", "jobs/quickstart.toml", "-q"], cwd=folder, check=True, stdout=subprocess.DEVNULL)
        output = "out/quickstart"
        text = on_terminal([program, "show", output, "--id", "tram.txt"], folder)
    console = Console(record=True, width=COLUMNS, file=open(os.devnull, "w"))
    console.print(Text("$ resemblance show out/quickstart --id tram.txt\n", style="bold"))
    console.print(Text.from_ansi(text.rstrip()))
    picture = console.export_svg(title="resemblance show")
    # The fonts of the reader: the picture makes no request.
    picture = re.sub(r"@font-face \{.*?\}\s*", "", picture, flags=re.DOTALL)
    (HERE / "show.svg").write_text(picture.replace("Fira Code", "ui-monospace, Menlo, Consolas"))


def programs():
    """(program, seconds) of the first table of docs/benchmarks.md, without the parts of a job."""
    page = (REPOSITORY / "docs" / "benchmarks.md").read_text()
    rows = []
    for line in page.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("| ") and len(cells) == 8 and cells[0] != "program":
            name, seconds = cells[0], float(cells[1])
            if "signatures alone" not in name and "2,000 documents" not in name:
                rows.append((name.replace(" (1 run; prints no pairs)", ""), seconds))
    if not rows:
        sys.exit("docs/benchmarks.md has no table of programs")
    return rows


def speed():
    """Horizontal bars on a logarithmic axis, since the slowest program takes a hundred times as long as the fastest."""
    import math

    rows = programs()
    # The reader's font is unknown: at 14 px, letters of wide ones such as DejaVu Sans take 8 px on average.
    left, width, height = 20 + 8 * max(len(name) for name, _ in rows), 360, 28
    low = 10 ** math.floor(math.log10(min(seconds for _, seconds in rows)))
    high = 10 ** math.ceil(math.log10(max(seconds for _, seconds in rows)))
    place = lambda seconds: width * math.log(seconds / low) / math.log(high / low)
    bottom = 44 + height * len(rows)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {left + width + 80} {bottom + 34}" font-size="14">',
        "<title>Seconds for 19,018 news stories, logarithmic</title>",
        "<style>text{fill:#24292f;font-family:system-ui,-apple-system,'Segoe UI',Roboto,'Helvetica Neue',Arial,sans-serif}"
        ".grid{stroke:#d0d7de}.bar{fill:#8c959f}.ours{fill:#0969da}"
        "@media(prefers-color-scheme:dark){text{fill:#e6edf3}.grid{stroke:#30363d}.bar{fill:#6e7681}.ours{fill:#58a6ff}}</style>",
        '<text x="10" y="22" font-weight="bold">Seconds for the near-duplicates of 19,018 news stories (logarithmic)</text>',
    ]
    tick = low
    while tick <= high:
        x = left + place(tick)
        parts.append(f'<line class="grid" x1="{x:.1f}" y1="36" x2="{x:.1f}" y2="{bottom}"/>')
        parts.append(f'<text x="{x:.1f}" y="{bottom + 20}" text-anchor="middle" font-size="12">{tick:g} s</text>')
        tick *= 10
    for number, (name, seconds) in enumerate(rows):
        y = 40 + height * number
        kind = "ours" if name.startswith("resemblance") else "bar"
        parts.append(f'<text x="{left - 10}" y="{y + 17}" text-anchor="end">{name}</text>')
        parts.append(f'<rect class="{kind}" x="{left}" y="{y + 4}" width="{place(seconds):.1f}" height="{height - 10}" rx="2"/>')
        parts.append(f'<text x="{left + place(seconds) + 6:.1f}" y="{y + 17}" font-size="12">{seconds:g}</text>')
    (HERE / "speed.svg").write_text("\n".join([*parts, "</svg>\n"]))


def report(program, reuters):
    """The first part of the page that the command writes, as a browser shows it."""
    with tempfile.TemporaryDirectory() as folder:
        job = str(REPOSITORY / "jobs" / "recipes" / "reuters.toml")
        settings = [f"source.url={reuters}", "score.threshold=0.5", "output.url=out/reuters"]
        options = [option for setting in settings for option in ("--set", setting)]
        subprocess.run([program, "run", job, "-q", *options], cwd=folder, check=True, stdout=subprocess.DEVNULL)
        subprocess.run([program, "report", "out/reuters", "--to", "report.html"], cwd=folder, check=True, stdout=subprocess.DEVNULL)
        browser = ["chromium", "--headless", "--no-sandbox", "--hide-scrollbars", "--blink-settings=preferredColorScheme=1"]
        picture = ["--window-size=1000,1400", f"--screenshot={HERE / 'report.png'}", f"file://{folder}/report.html"]
        subprocess.run([*browser, *picture], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    command = str(Path(sys.argv[1]).resolve())
    show(command)
    speed()
    if len(sys.argv) == 3:
        report(command, Path(sys.argv[2]).resolve())
