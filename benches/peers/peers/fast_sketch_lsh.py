"""FastSketchLSH: shingles in Python, then its batch interface: sketches, index, queries, and the estimates of the candidates.

Its sketch is the Fast Similarity Sketch of Dahlgaard, Knudsen and Thorup. 16 bands as in its README.
"""

from FastSketchLSH import LSH, FastSimilaritySketch, estimate_jaccard

from peers import shared

BANDS = 16


def main():
    given, phases = shared.arguments(), shared.Phases()
    with phases("read"):
        ids, texts = shared.read(given.parquet)
    with phases("shingles"):
        sets = [list(shared.shingles(text, given.shingle)) for text in texts]
    with phases("signatures"):
        signatures = FastSimilaritySketch(size=given.permutations, seed=42).batch(sets, num_threads=given.cores)
    with phases("index"):
        index = LSH(num_perm=given.permutations, num_bands=BANDS, num_threads=given.cores)
        index.insert(signatures)
    with phases("query"):
        candidates = shared.unordered(enumerate(index.query(signatures)))
    with phases("estimates"):
        pairs = [
            (ids[a], ids[b])
            for a, b in candidates
            if estimate_jaccard(signatures[a], signatures[b]) >= given.threshold
        ]
    setting = f"{BANDS} x {given.permutations // BANDS}"
    shared.write(given.output, "FastSketchLSH", phases, setting=setting, pairs=pairs)


if __name__ == "__main__":
    main()
