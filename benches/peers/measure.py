"""Measures a process and its descendants: wall and processor seconds, and peak memory."""

import ctypes
import dataclasses
import os
import pathlib
import signal
import subprocess
import tempfile
import threading
import time

PR_SET_CHILD_SUBREAPER = 36
PERIOD = 0.1  # the interval in seconds at which the memory of a process tree is read
GRACE = 10.0  # the seconds that descendants have to end after the process
PAGE = os.sysconf("SC_PAGE_SIZE")


@dataclasses.dataclass
class Run:
    """The measurements of one run. `failure` is empty if the run succeeded."""

    wall: float
    cpu: float
    peak: int
    failure: str


def run(
    command: list, *, text: str, folder: pathlib.Path, env: dict[str, str], timeout: float, log: pathlib.Path
) -> Run:
    """Runs `command` in `folder`, and kills it after `timeout` seconds.

    `text` is the input of the command, and its output is written to `log`.

    Processor seconds include all descendants. Descendants that outlive the process become children of this process,
    which waits for them. The peak of a single process is measured by the kernel. The peak of several processes is the
    largest sum of their resident sets, which are read every tenth of a second. Shared pages then count more than once.
    A child starts with the resident set of this process as its peak, about 20 MB.
    """
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    with log.open("wb") as output, tempfile.TemporaryFile() as stdin:
        stdin.write(text.encode())
        stdin.seek(0)
        began = time.perf_counter()
        process = subprocess.Popen(
            command, cwd=folder, env=env, stdin=stdin, stdout=output, stderr=subprocess.STDOUT,
            start_new_session=True,
        )  # fmt: skip
        watch = Watch(process.pid, began + timeout)
        watch.start()
        try:
            _, status, usage = os.wait4(process.pid, 0)
            wall = time.perf_counter() - began
            process.returncode = os.waitstatus_to_exitcode(status)
            usages = [usage, *orphans(process.pid)]
        finally:
            watch.ended.set()
            watch.join()
            kill(process.pid)
    failure = ""
    if watch.killed:
        failure = f"stopped after {timeout:.0f} s"
    elif process.returncode != 0:
        failure = last_line(log) if process.returncode > 0 else signal.Signals(-process.returncode).name
        failure = failure or f"exit {process.returncode}"
    cpu = sum(u.ru_utime + u.ru_stime for u in usages)
    return Run(wall, cpu, max(watch.peak, *(u.ru_maxrss * 1024 for u in usages)), failure)


def orphans(group: int) -> list:
    """Returns the usage of descendants that outlived the process. Kills descendants that do not end within `GRACE`."""
    usages, deadline = [], time.monotonic() + GRACE
    while True:
        try:
            pid, _, usage = os.wait4(-1, os.WNOHANG)
        except ChildProcessError:
            return usages
        if pid:
            usages.append(usage)
        elif time.monotonic() > deadline + GRACE:
            return usages
        else:
            if time.monotonic() > deadline:
                kill(group)
            time.sleep(0.02)


def kill(group: int):
    try:
        os.killpg(group, signal.SIGKILL)
    except ProcessLookupError:
        pass


def last_line(log: pathlib.Path) -> str:
    lines = [line.strip() for line in log.read_text(errors="replace").splitlines()]
    return next((line for line in reversed(lines) if line), "")


class Watch(threading.Thread):
    """Reads the memory of a process tree until `ended` is set. Kills the processes at the deadline."""

    def __init__(self, pid: int, deadline: float):
        super().__init__(daemon=True)
        self.pid, self.deadline = pid, deadline
        self.ended, self.killed, self.peak = threading.Event(), False, 0

    def run(self):
        while not self.ended.wait(PERIOD):
            tree = descendants(self.pid)
            if len(tree) > 1:
                self.peak = max(self.peak, sum(map(resident, tree)))
            if time.perf_counter() > self.deadline:
                self.killed = True
                kill(self.pid)


def descendants(pid: int) -> list[int]:
    """Returns the process and all of its descendants."""
    found = [pid]
    for parent in found:
        try:
            for thread in os.listdir(f"/proc/{parent}/task"):
                found += map(int, pathlib.Path(f"/proc/{parent}/task/{thread}/children").read_text().split())
        except OSError:
            pass  # the process has ended
    return found


def resident(pid: int) -> int:
    """Returns the bytes in the resident set of a process; 0 if the process has ended."""
    try:
        return int(pathlib.Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE
    except OSError:
        return 0
