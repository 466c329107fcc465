"""Compares found pairs with the exact pairs, and prints JSON.

The arguments are the file of exact pairs (or "none"), the number of documents, and the output folder of a peer or of
`resemblance`. Exact pairs with later documents are ignored.
"""

import json
import pathlib
import sys

import numpy
import pyarrow.compute
import pyarrow.dataset
import pyarrow.parquet


def keys(table, a: str, b: str) -> numpy.ndarray:
    """Returns each unordered pair of different ids once, encoded as a number."""
    a, b = (pyarrow.compute.cast(table[c], pyarrow.int64()).to_numpy() for c in (a, b))
    low, high = numpy.minimum(a, b), numpy.maximum(a, b)
    return numpy.unique((low << 32 | high)[low != high])


def in_clusters(table, exact: numpy.ndarray) -> tuple[int, int]:
    """Returns the number of pairs of documents that share a cluster, and how many of them are exact pairs."""
    ids, clusters = table["id"].to_numpy(), table["cluster"].to_numpy()
    sizes = numpy.unique(clusters, return_counts=True)[1].astype(object)
    of = dict(zip(ids.tolist(), clusters.tolist()))
    hits = sum(of.get(key >> 32, -1) == of.get(key & 0xFFFFFFFF, -2) for key in exact.tolist())
    return int((sizes * (sizes - 1) // 2).sum()), hits


def main():
    truth, documents, folder = sys.argv[1], int(sys.argv[2]), pathlib.Path(sys.argv[3])
    exact = None
    if truth != "none":
        exact = keys(pyarrow.parquet.read_table(truth), "a", "b")
        exact = exact[(exact & 0xFFFFFFFF) < documents]
    record = {"exact": None if exact is None else len(exact), "found": None, "hits": None}
    if (folder / "manifest.json").exists():
        found = keys(pyarrow.dataset.dataset(folder / "pairs").to_table(), "id_a", "id_b")
    elif (folder / "pairs.parquet").exists():
        found = keys(pyarrow.parquet.read_table(folder / "pairs.parquet"), "a", "b")
    else:
        found = None
    if found is not None:
        record["found"] = len(found)
        if exact is not None:
            record["hits"] = len(numpy.intersect1d(found, exact, assume_unique=True))
    elif (folder / "clusters.parquet").exists() and exact is not None:
        table = pyarrow.parquet.read_table(folder / "clusters.parquet")
        record["in_clusters"], record["hits"] = in_clusters(table, exact)
    print(json.dumps(record))


if __name__ == "__main__":
    main()
