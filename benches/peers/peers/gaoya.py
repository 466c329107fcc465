"""gaoya: everything in its index, on all cores: words, shingles, signatures, bands for a recall of 0.99, estimates.

It keeps a candidate whose estimate reaches the threshold.
"""

import re

import gaoya

from peers import shared


def main():
    given, phases = shared.arguments(), shared.Phases()
    with phases("read"):
        ids, texts = shared.read(given.parquet)
    with phases("shingles, signatures, index"):
        index = gaoya.minhash.MinHashStringIndex(
            hash_size=32,
            jaccard_threshold=given.threshold,
            num_bands=None,
            band_size=None,
            num_hashes=given.permutations,
            analyzer="word",
            ngram_range=(given.shingle, given.shingle),
            id_container="vec",
        )
        index.par_bulk_insert_docs(ids, texts)
    with phases("query"):
        pairs = shared.unordered(zip(ids, index.par_bulk_query(texts)))
    bands, rows = (re.search(rf"{name} = (\d+)", repr(index))[1] for name in (r"\bbands", "rows_per_band"))
    shared.write(given.output, "gaoya", phases, setting=f"{bands} x {rows}", pairs=pairs)


if __name__ == "__main__":
    main()
