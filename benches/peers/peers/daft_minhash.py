"""Daft, from Parquet to signatures: normalises and takes `minhash`; the result is held in memory.

No banding, no join, no pairs.
"""

import os

import daft

from peers import shared


def signatures(given) -> daft.DataFrame:
    """Returns a frame (id, min_hashes), computed as in Daft's tutorial on duplicates in Common Crawl."""
    text = daft.col("text").normalize(remove_punct=True, lowercase=True, nfd_unicode=True, white_space=True)
    hashes = text.minhash(num_hashes=given.permutations, ngram_size=given.shingle, seed=42, hash_function="xxhash")
    return daft.read_parquet(f"{given.parquet}/*.parquet").select(daft.col("id"), hashes.alias("min_hashes"))


def leave():
    """Ends the process immediately, because Daft's threads sometimes abort the interpreter while it shuts down."""
    os._exit(0)


def main():
    given, phases = shared.arguments(), shared.Phases()
    with phases("read, normalise, signatures"):
        signatures(given).collect()
    shared.write(given.output, "daft", phases, setting="-")
    leave()


if __name__ == "__main__":
    main()
