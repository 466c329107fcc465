"""rensa: shingles in Python, then its batch interface: signatures, index, queries, and the estimates of the candidates.

16 bands as in its README, which keeps a candidate whose estimate reaches a threshold.
"""

from rensa import RMinHash, RMinHashLSH

from peers import shared

BANDS = 16


def main():
    given, phases = shared.arguments(), shared.Phases()
    with phases("read"):
        ids, texts = shared.read(given.parquet)
    with phases("shingles"):
        sets = [list(shared.shingles(text, given.shingle)) for text in texts]
    with phases("signatures"):
        signatures = RMinHash.from_token_sets(sets, num_perm=given.permutations, seed=42)
    with phases("index"):
        index = RMinHashLSH(threshold=given.threshold, num_perm=given.permutations, num_bands=BANDS)
        index.insert_pairs(enumerate(signatures))
    with phases("query"):
        candidates = shared.unordered(enumerate(index.query_all(signatures)))
    with phases("estimates"):
        pairs = [
            (ids[a], ids[b]) for a, b in candidates if signatures[a].jaccard(signatures[b]) >= given.threshold
        ]
    shared.write(given.output, "rensa", phases, setting=f"{BANDS} x {given.permutations // BANDS}", pairs=pairs)


if __name__ == "__main__":
    main()
