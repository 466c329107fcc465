"""The functions that all peers share. They read arguments and documents, split texts, time phases and write results.

The documents are Parquet files that `prepare.py` wrote, one file per core. The column `id` has 64-bit integers from 0.
The column `text` has words of a-z in lower case, separated by single spaces. A text has at least as many words as a
shingle.
"""

import argparse
import contextlib
import importlib.metadata
import json
import pathlib
import time

import pyarrow
import pyarrow.parquet


def arguments() -> argparse.Namespace:
    """Parses the arguments that `run.py` passes to every peer."""
    parser = argparse.ArgumentParser()
    parser.add_argument("parquet", help="the folder with the documents")
    parser.add_argument("output", type=pathlib.Path, help="an empty folder for what was found")
    parser.add_argument("--shingle", type=int, required=True, help="words in a shingle")
    parser.add_argument("--permutations", type=int, required=True)
    parser.add_argument("--threshold", type=float, required=True)
    parser.add_argument("--cores", type=int, required=True)
    return parser.parse_args()


def read(folder: str) -> tuple[list[int], list[str]]:
    """Reads the ids and texts of all documents, in the order of the files."""
    table = pyarrow.parquet.read_table(folder, columns=["id", "text"])
    return table["id"].to_pylist(), table["text"].to_pylist()


def shingles(text: str, size: int) -> set[str]:
    """Returns the distinct shingles of `size` words."""
    words = text.split()
    return {" ".join(words[i : i + size]) for i in range(len(words) - size + 1)}


class Phases:
    """Records the seconds of each named phase, in the order in which the phases end."""

    def __init__(self):
        self.seconds: dict[str, float] = {}

    @contextlib.contextmanager
    def __call__(self, name: str):
        began = time.perf_counter()
        yield
        self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - began


def unordered(neighbors) -> set[tuple[int, int]]:
    """Returns the pairs (a, b) with a < b from an iterable of (id, ids of neighbors)."""
    return {(min(a, b), max(a, b)) for a, found in neighbors for b in found if a != b}


def write(
    output: pathlib.Path, package: str, phases: Phases, *, setting="", pairs=None, clusters=None, removed=None
):
    """Writes `pairs.parquet` (a, b) or `clusters.parquet` (id, cluster), and `run.json`.

    `setting` describes the settings of the peer, such as "16 x 8". `removed` is the number of documents that the peer
    would remove.
    """
    for name, columns, rows in (("pairs", ("a", "b"), pairs), ("clusters", ("id", "cluster"), clusters)):
        if rows is not None:
            both = list(zip(*rows)) or [[], []]
            table = pyarrow.table({c: pyarrow.array(v, pyarrow.int64()) for c, v in zip(columns, both)})
            pyarrow.parquet.write_table(table, output / f"{name}.parquet")
    record = {
        "version": importlib.metadata.version(package),
        "setting": setting,
        "removed": removed,
        "phases": phases.seconds,
    }
    (output / "run.json").write_text(json.dumps(record))
