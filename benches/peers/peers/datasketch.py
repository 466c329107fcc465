"""datasketch: MinHash in bulk, an LSH index for the threshold with its own choice of bands, a query for each document.

Its defaults, SHA-1 for the shingles among them. What it returns are candidates; its documentation leaves their
verification to the caller.
"""

from datasketch import MinHash, MinHashLSH

from peers import shared


def main(**hashing):
    given, phases = shared.arguments(), shared.Phases()
    with phases("read"):
        ids, texts = shared.read(given.parquet)
    with phases("shingles"):
        sets = [[s.encode() for s in shared.shingles(text, given.shingle)] for text in texts]
    with phases("signatures"):
        signatures = MinHash.bulk(sets, num_perm=given.permutations, **hashing)
    with phases("index"):
        index = MinHashLSH(threshold=given.threshold, num_perm=given.permutations)
        with index.insertion_session() as session:
            for key, signature in zip(ids, signatures):
                session.insert(key, signature, check_duplication=False)
    with phases("query"):
        pairs = shared.unordered((key, index.query(signature)) for key, signature in zip(ids, signatures))
    shared.write(given.output, "datasketch", phases, setting=f"{index.b} x {index.r}", pairs=pairs)


if __name__ == "__main__":
    main()
