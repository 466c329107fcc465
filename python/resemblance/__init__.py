"""Finds similar documents in a dataset, and says how similar they are.

    import resemblance

    run = resemblance.run("jobs/quickstart.toml")
    run.pairs.to_arrow()

Each function calls the command `resemblance`, which comes with this package, as a child process. Ctrl-C stops it
cleanly, and its errors are exceptions: see `ResemblanceError`.
"""

from importlib.metadata import PackageNotFoundError as _NotFound
from importlib.metadata import version as _version

from .alarms import Alarm
from .dedup import dedup
from .errors import (
    AlarmError,
    BugError,
    CommandNotFound,
    EngineError,
    InputError,
    Interrupted,
    JobError,
    ResemblanceError,
)
from .evaluation import evaluate
from .job_commands import Checked, check, compare, plan, run, sweep
from .locate import command
from .lookups import find, neighbors, report, show, show_passage, sql
from .output import Output, Run, Table
from .output import open_output as open
from .rows import Neighbor, Pair, Passage, Rows, ShownPair
from .upkeep import (
    Applied,
    Cleaned,
    Generated,
    Losses,
    RemovedSpans,
    Sizes,
    Verified,
    Written,
    apply,
    clean,
    generate,
    merge,
    verify,
)

try:
    #: The version of this package.
    __version__ = _version("resemblance")
except _NotFound:  # used from its sources
    __version__ = "0.1.0"

__all__ = [
    "Alarm",
    "AlarmError",
    "Applied",
    "BugError",
    "Checked",
    "Cleaned",
    "CommandNotFound",
    "EngineError",
    "Generated",
    "InputError",
    "Interrupted",
    "JobError",
    "Losses",
    "Neighbor",
    "Output",
    "Pair",
    "Passage",
    "RemovedSpans",
    "ResemblanceError",
    "Rows",
    "Run",
    "ShownPair",
    "Sizes",
    "Table",
    "Verified",
    "Written",
    "apply",
    "check",
    "clean",
    "command",
    "compare",
    "dedup",
    "evaluate",
    "find",
    "generate",
    "merge",
    "neighbors",
    "open",
    "plan",
    "report",
    "run",
    "show",
    "show_passage",
    "sql",
    "sweep",
    "verify",
]
