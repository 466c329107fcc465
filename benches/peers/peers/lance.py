"""Lance: a dataset with its MinHash index of words, and a query for each document, on all cores.

A query gives the rows that share a bucket, by their estimate. 16 bands, as those of FastSketchLSH. Its index has no join with itself.
"""

import concurrent.futures

import lance
from lance.indices import IndexConfig
from lance.query import MinHashQuery

from peers import shared

BANDS = 16
#: The maximum number of rows that a query returns.
MOST = 5_000
#: The settings with which words are indexed unchanged.
WORDS = {
    "base_tokenizer": "whitespace",
    "lower_case": False,
    "stem": False,
    "remove_stop_words": False,
    "ascii_folding": False,
}


def main():
    given, phases = shared.arguments(), shared.Phases()
    with phases("read"):
        ids, texts = shared.read(given.parquet)
    with phases("dataset"):
        rows = shared.pyarrow.table({"id": ids, "text": texts})
        dataset = lance.write_dataset(rows, given.output / "documents.lance")
    with phases("index"):
        settings = {
            "num_hashes": given.permutations,
            "num_bands": BANDS,
            "shingle_size": given.shingle,
            "tokenizer": WORDS,
        }
        dataset.create_scalar_index("text", IndexConfig("minhashlsh", settings))

    def similar(text: str) -> list[int]:
        nearest = MinHashQuery(text, "text")
        found = dataset.to_table(columns=["id", "_distance"], nearest=nearest, limit=MOST).to_pylist()
        return [row["id"] for row in found if row["_distance"] <= 1 - given.threshold]

    with phases("queries"), concurrent.futures.ThreadPoolExecutor(given.cores) as pool:
        pairs = shared.unordered(zip(ids, pool.map(similar, texts)))
    setting = f"{BANDS} x {given.permutations // BANDS}"
    shared.write(given.output, "pylance", phases, setting=setting, pairs=pairs)


if __name__ == "__main__":
    main()
