"""datatrove: the first three stages of its MinHash example, with its defaults (14 x 8) and a task for each core.

Its words are spaCy's, which cuts some (as `cannot`) in two. Its result is the documents to remove; the last stage,
which writes the others, is left out.
"""

import pathlib
import struct

import pyarrow.parquet
from datatrove.executor import LocalPipelineExecutor
from datatrove.pipeline.dedup import MinhashDedupSignature
from datatrove.pipeline.dedup.minhash import MinhashConfig, MinhashDedupBuckets, MinhashDedupCluster
from datatrove.pipeline.readers import ParquetReader

from peers import shared


def clusters(folder: pathlib.Path, parquet: pathlib.Path) -> list[tuple[int, int]]:
    """Returns (id, cluster) from the output of stage 3, which has one file of rows and clusters per input file."""
    rows = []
    for file, path in enumerate(sorted(parquet.glob("*.parquet"))):
        first = pyarrow.parquet.read_table(path, columns=["id"])["id"][0].as_py()
        written = folder / f"{file:06d}.clusters"
        if written.exists():
            rows += [(first + row, cluster) for row, cluster in struct.iter_unpack("<II", written.read_bytes())]
    return rows


def main():
    given, phases = shared.arguments(), shared.Phases()
    config = MinhashConfig(n_grams=given.shingle)
    work = {name: str(given.output / name) for name in ("signatures", "buckets", "removed")}
    tasks = len(list(pathlib.Path(given.parquet).glob("*.parquet")))

    def run(name: str, steps: list, tasks: int):
        with phases(name):
            logs = str(given.output / "logs" / name)
            LocalPipelineExecutor(steps, tasks=tasks, workers=min(tasks, given.cores), logging_dir=logs).run()

    reader = ParquetReader(given.parquet, glob_pattern="*.parquet")
    run("shingles, signatures", [reader, MinhashDedupSignature(work["signatures"], config=config)], tasks)
    buckets = MinhashDedupBuckets(work["signatures"], work["buckets"], config=config)
    run("buckets", [buckets], config.num_buckets)
    cluster = MinhashDedupCluster(work["buckets"], work["removed"], config=config, save_cluster_id=True)
    run("clusters", [cluster], 1)

    found = clusters(pathlib.Path(work["removed"]), pathlib.Path(given.parquet))
    removed = len(found) - len({cluster for _, cluster in found})
    setting = f"{config.num_buckets} x {config.hashes_per_bucket}"
    shared.write(given.output, "datatrove", phases, setting=setting, clusters=found, removed=removed)


if __name__ == "__main__":
    main()
