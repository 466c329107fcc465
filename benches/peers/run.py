#!/usr/bin/env python3
"""Measures other programs that find similar documents next to `resemblance`, and prints Markdown.

    cargo build --release
    python3 benches/peers/run.py --reuters data/reuters21578
    python3 benches/peers/run.py --parquet documents.parquet --text text

All read the same Parquet, with the words cut in the same way beforehand, and look for the pairs of documents whose
sets of 5-word shingles have a Jaccard similarity of at least 0.8, with 128 permutations. Each runs in a process of its
own, in turn, several times. The exact answer, for recall and precision, is SetSimilaritySearch's. The peers are
installed into an environment in the user's cache, at the versions of requirements.txt. Linux alone; some Gigabytes of
packages; Python 3.11 or later; Spark needs Java 17.

`--exact` compares the exact methods instead: SetSimilaritySearch and `resemblance` with a method of its own.
"""

import argparse
import dataclasses
import json
import os
import pathlib
import shutil
import sys
import tempfile

sys.dont_write_bytecode = True

import tables  # noqa: E402
from bench import OURS, SQL, Bench, Outcome  # noqa: E402

EXACT = "set-similarity-search"
ON_SAMPLE = ["spark"]
PEERS = [
    "datasketch",
    "datasketch-xxhash",
    "rensa",
    "fast-sketch-lsh",
    "gaoya",
    "daft-minhash",
    "daft-groups",
    "lance",
    "datatrove",
    *ON_SAMPLE,
]


# fmt: off
def arguments() -> argparse.Namespace:
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache")
    names = ", ".join(PEERS)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--parquet", nargs="+", metavar="FILE", help="the documents: Parquet files or folders")
    source.add_argument("--reuters", metavar="FOLDER", help="the documents: the bodies of Reuters-21578 (*.sgm)")
    parser.add_argument("--text", default="text", metavar="COLUMN", help="the texts in the Parquet (%(default)s)")
    parser.add_argument("--documents", type=count, default=0, metavar="N", help="the first N documents alone")
    parser.add_argument("--min-words", type=count, default=8, metavar="N",
                        help="leave shorter documents out; at least the words of a shingle (%(default)s)")
    parser.add_argument("--sample", type=count, default=2000, metavar="N",
                        help=f"documents for {', '.join(ON_SAMPLE)} (%(default)s)")
    parser.add_argument("--only", type=names_of, metavar="NAMES", help=f"these peers, of {names}; or none")
    parser.add_argument("--without", type=names_of, default=[], metavar="NAMES", help="all but these peers")
    parser.add_argument("--repeat", type=count, default=3, metavar="N", help="runs of each (%(default)s)")
    parser.add_argument("--slow", type=float, default=120, metavar="SECONDS",
                        help="what takes longer than this is run once (%(default)s)")
    parser.add_argument("--timeout", type=float, default=1800, metavar="SECONDS",
                        help="what takes longer than this is stopped (%(default)s)")
    parser.add_argument("--shingle", type=count, default=5, metavar="N", help="words in a shingle (%(default)s)")
    parser.add_argument("--permutations", type=count, default=128, metavar="N", help="(%(default)s)")
    parser.add_argument("--threshold", type=float, metavar="J", help="Jaccard similarity (0.8; --exact: 0.5)")
    parser.add_argument("--cores", type=count, default=len(os.sched_getaffinity(0)), metavar="N",
                        help="cores for every program (%(default)s)")
    parser.add_argument("--exact", nargs="?", const="all", metavar="METHOD",
                        help="compare exact methods; METHOD is resemblance's candidates.method (%(const)s)")
    parser.add_argument("--no-truth", action="store_true", help="no exact answer: no recall, no precision")
    parser.add_argument("--resemblance", type=pathlib.Path, metavar="PATH", help="(target/release/resemblance)")
    parser.add_argument("--environment", type=pathlib.Path, default=cache / "resemblance" / "peers",
                        metavar="FOLDER", help="the peers' Python environment (%(default)s)")
    parser.add_argument("--work", type=pathlib.Path, metavar="FOLDER",
                        help="keep all files in this new folder (a temporary one, removed)")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE", help="write every run to this file")
    given = parser.parse_args()
    if given.min_words < given.shingle:
        parser.error(f"--min-words must be at least --shingle ({given.shingle}), not {given.min_words}")
    if given.threshold is None:
        given.threshold = 0.5 if given.exact else 0.8
    if not 0 < given.threshold <= 1:
        parser.error(f"--threshold must be over 0 and at most 1, not {given.threshold}")
    return given
# fmt: on


def count(value: str) -> int:
    if not value.isdecimal() or int(value) == 0:
        raise argparse.ArgumentTypeError(f"must be a whole number over 0, not {value}")
    return int(value)


def names_of(value: str) -> list[str]:
    names = [] if value == "none" else value.split(",")
    for name in names:
        if name not in PEERS:
            raise argparse.ArgumentTypeError(f"there is no peer {name}; there are {', '.join(PEERS)}")
    return names


def main():
    given = arguments()
    work = given.work or pathlib.Path(tempfile.mkdtemp(prefix="resemblance-peers-"))
    try:
        work.mkdir(parents=True, exist_ok=not given.work)
    except FileExistsError:
        sys.exit(f"error: --work must be a new folder; {work} exists")
    try:
        bench = Bench(given, work.absolute())
        counts = bench.prepare()
        outcomes = exact(bench, counts) if given.exact else peers(bench, counts)
    finally:
        if not given.work:
            shutil.rmtree(work, ignore_errors=True)
    if given.json:
        given.json.write_text(json.dumps([dataclasses.asdict(outcome) for outcome in outcomes], indent=1))
    if not outcomes[0].runs:
        sys.exit(1)


def peers(bench: Bench, counts: dict) -> list[Outcome]:
    """Prints the main table and its details."""
    given = bench.given
    names = [name for name in (PEERS if given.only is None else given.only) if name not in given.without]
    outcomes = [Outcome(OURS, "all")]
    if "daft-minhash" in names:
        outcomes.append(Outcome(SQL, "all"))
    outcomes += [Outcome(name, "all") for name in names if name not in ON_SAMPLE]
    if sample := [name for name in names if name in ON_SAMPLE]:
        outcomes += [Outcome(name, "sample") for name in (OURS, *sample)]
    truth = None
    if not given.no_truth:
        reference = Outcome(EXACT, "all")
        bench.run(reference)
        truth = bench.work / f"{EXACT}-all-0" / "pairs.parquet" if reference.runs else None
    bench.rounds(outcomes)
    for outcome in outcomes:
        bench.score(outcome, truth, counts)
    tables.heading(bench, counts)
    tables.programs(outcomes, counts)
    tables.details(outcomes)
    tables.stages(outcomes, counts)
    tables.signatures(outcomes, counts)
    tables.goals(outcomes, counts, reuters=bool(given.reuters))
    return outcomes


def exact(bench: Bench, counts: dict) -> list[Outcome]:
    """Prints the table of exact methods."""
    ours, theirs = outcomes = [Outcome(OURS, "all"), Outcome(EXACT, "all")]
    bench.rounds(outcomes, **{"candidates.method": bench.given.exact})
    truth = bench.work / f"{EXACT}-all-0" / "pairs.parquet" if theirs.runs else None
    for outcome in outcomes:
        outcome.setting = "exact"
        bench.score(outcome, truth, counts)
    tables.heading(bench, counts)
    tables.programs(outcomes, counts)
    tables.details(outcomes)
    return outcomes


if __name__ == "__main__":
    main()
