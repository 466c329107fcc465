"""SetSimilaritySearch: every pair at the threshold, exactly, by an inverted index on prefixes (Bayardo et al. 2007)."""

from SetSimilaritySearch import all_pairs

from peers import shared


def main():
    given, phases = shared.arguments(), shared.Phases()
    with phases("read"):
        ids, texts = shared.read(given.parquet)
    with phases("shingles"):
        sets = [shared.shingles(text, given.shingle) for text in texts]
    with phases("all pairs"):
        found = all_pairs(sets, similarity_func_name="jaccard", similarity_threshold=given.threshold)
        pairs = [(ids[a], ids[b]) for a, b, _ in found]
    shared.write(given.output, "SetSimilaritySearch", phases, setting="exact", pairs=pairs)


if __name__ == "__main__":
    main()
