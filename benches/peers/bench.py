"""Runs the programs in turn over the same documents, and keeps the measurements and results of each run."""

import argparse
import dataclasses
import json
import os
import pathlib
import statistics
import subprocess
import sys

import environment
import measure

HERE = pathlib.Path(__file__).resolve().parent
OURS = "resemblance"
SQL = "resemblance-sql"
# The prompt reports a failed query and continues.
QUERIES = """CREATE EXTERNAL TABLE given STORED AS PARQUET LOCATION '{source}/';
SELECT sum(CAST(minhash(shingles(text, 'word', {shingle}, 'xxh3', 'lowercase,collapse-whitespace'), {permutations}, 42)[1]
    AS BIGINT)) FROM given;
"""


@dataclasses.dataclass
class Outcome:
    """The results of all runs of one program over one input ("all" or "sample")."""

    name: str
    input: str
    runs: list[measure.Run] = dataclasses.field(default_factory=list)
    failure: str = ""
    version: str = ""
    setting: str = ""
    method: str = "lsh"
    removed: int | None = None
    phases: list[dict[str, float]] = dataclasses.field(default_factory=list)
    score: dict = dataclasses.field(default_factory=dict)

    def wall(self) -> float:
        return statistics.median(run.wall for run in self.runs)

    def cpu(self) -> float:
        return statistics.median(run.cpu for run in self.runs)

    def peak(self) -> int:
        return max(run.peak for run in self.runs)

    def phase(self, name: str) -> float:
        return statistics.median(phases[name] for phases in self.phases)


class Bench:
    """The settings and files that all runs share."""

    def __init__(self, given: argparse.Namespace, work: pathlib.Path):
        self.given, self.work = given, work
        self.binary = binary(given.resemblance)
        self.version = subprocess.check_output([self.binary, "--version"], text=True).split()[-1]
        self.python = environment.python(given.environment)
        threads = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "RAYON_NUM_THREADS")
        self.env = {**os.environ, **dict.fromkeys(threads, str(given.cores)), "PYTHONDONTWRITEBYTECODE": "1"}
        # All programs run on the same cores. Child processes inherit the setting.
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: given.cores])

    def tool(self, name: str, *args) -> dict:
        """Runs a helper program, and returns the JSON that it prints."""
        command = [self.python, "-m", f"peers.{name}", *map(str, args)]
        done = subprocess.run(command, cwd=HERE, env=self.env, stdout=subprocess.PIPE, text=True)
        if done.returncode != 0:
            sys.exit(1)  # the helper program has printed the error
        return json.loads(done.stdout)

    def prepare(self) -> dict:
        given = self.given
        source = ["--reuters", pathlib.Path(given.reuters).absolute()] if given.reuters else []
        if given.parquet:
            source = [
                "--parquet",
                *(pathlib.Path(path).absolute() for path in given.parquet),
                "--text",
                given.text,
            ]
        limits = {"documents": given.documents, "sample": given.sample, "min-words": given.min_words}
        options = [word for name, value in limits.items() for word in (f"--{name}", value)]
        return self.tool("prepare", self.work / "input", *source, *options, "--parts", given.cores)

    def command(self, outcome: Outcome, output: pathlib.Path, settings: dict[str, str]) -> list:
        source, given = self.work / "input" / outcome.input, self.given
        if outcome.name == SQL:
            return [self.binary, "sql", self.work / f"{OURS}-{outcome.input}-0"]
        if outcome.name != OURS:
            module = f"peers.{outcome.name.replace('-', '_')}"
            options = [
                f"--{key}={getattr(given, key)}" for key in ("shingle", "permutations", "threshold", "cores")
            ]
            return [self.python, "-m", module, source, output, *options]
        job = self.work / "job.toml"
        job.write_text(f"""name = "peers"
source = {{ format = "parquet", url = "{source}/", id = "id", text = "text" }}
shingle = {{ unit = "word", size = {given.shingle} }}
minhash = {{ permutations = {given.permutations} }}
score = {{ threshold = {given.threshold} }}
output = {{ url = "{output}/" }}
engine = {{ threads = {given.cores} }}
""")
        sets = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
        return [self.binary, "--quiet", "run", job, *sets]

    def run(self, outcome: Outcome, **settings: str):
        """Runs a program once, and adds the measurements to `outcome`."""
        number = len(outcome.runs)
        output = self.work / f"{outcome.name}-{outcome.input}-{number}"
        if outcome.name not in (OURS, SQL):
            output.mkdir()
        command = self.command(outcome, output, settings)
        log = self.work / f"{output.name}.log"
        text = ""
        if outcome.name == SQL:
            source = self.work / "input" / outcome.input
            given = self.given
            text = QUERIES.format(source=source, shingle=given.shingle, permutations=given.permutations)
        done = measure.run(command, text=text, folder=HERE, env=self.env, timeout=self.given.timeout, log=log)
        if outcome.name == SQL and not done.failure and "error:" in log.read_text():
            done.failure = measure.last_line(log)
        print(f"{outcome.name} ({outcome.input}): {done.failure or f'{done.wall:.2f} s'}", file=sys.stderr)
        if done.failure:
            outcome.failure = done.failure
            return
        outcome.runs.append(done)
        if outcome.name == OURS:
            manifest = json.loads((output / "manifest.json").read_text())
            outcome.version = manifest["resemblance"]
            lsh, outcome.method = manifest["job"]["lsh"], manifest["job"]["candidates"]["method"]
            outcome.setting = f"{lsh['bands']} x {lsh['rows']}"
            outcome.phases.append({stage["name"]: stage["seconds"] for stage in manifest["stages"]})
        elif outcome.name == SQL:
            outcome.version, outcome.setting = self.version, "-"
        else:
            record = json.loads((output / "run.json").read_text())
            outcome.version, outcome.setting, outcome.removed = (
                record[k] for k in ("version", "setting", "removed")
            )
            outcome.phases.append(record["phases"])

    def rounds(self, outcomes: list[Outcome], **settings: str):
        """Runs every program once, and repeats this. Slow programs are not repeated."""
        for turn in range(self.given.repeat):
            for outcome in outcomes:
                slow = turn > 0 and outcome.runs and outcome.wall() > self.given.slow
                if not outcome.failure and not slow:
                    self.run(outcome, **(settings if outcome.name == OURS else {}))

    def score(self, outcome: Outcome, truth: pathlib.Path | None, counts: dict):
        if outcome.runs:
            folder = self.work / f"{outcome.name}-{outcome.input}-0"
            outcome.score = self.tool("score", truth or "none", counts[outcome.input]["documents"], folder)


def binary(given: pathlib.Path | None) -> pathlib.Path:
    root = pathlib.Path(os.environ.get("CARGO_TARGET_DIR") or HERE.parent.parent / "target")
    path = (given or root / "release" / OURS).absolute()
    if not os.access(path, os.X_OK):
        sys.exit(
            f"error: there is no program {path}: run `cargo build --release`, or say where it is: --resemblance"
        )
    return path
