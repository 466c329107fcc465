"""Daft's recipe for duplicates, of its tutorial on Common Crawl: signatures, bands exploded, grouped by band and values.

The pairs are those within the groups, without verification. The recipe continues with connected components, in several
joins for each round; they are not run here.
"""

import itertools

import daft
from daft import col
from scipy.integrate import quad

from peers import shared
from peers.daft_minhash import leave, signatures


def bands_and_rows(threshold: float, permutations: int) -> tuple[int, int]:
    """Returns the bands and rows with the smallest error. False positives and false negatives have the same weight."""

    def error(b: int, r: int) -> float:
        def missed(s: float) -> float:
            return (1 - s**r) ** b

        return quad(lambda s: 1 - missed(s), 0, threshold)[0] + quad(missed, threshold, 1)[0]

    return min(
        ((b, r) for b in range(1, permutations + 1) for r in range(1, permutations // b + 1)),
        key=lambda choice: error(*choice),
    )


def main():
    given, phases = shared.arguments(), shared.Phases()
    with phases("choice of bands"):
        bands, rows = bands_and_rows(given.threshold, given.permutations)

    @daft.func()
    def band_idx(chunks: list[list[int]]) -> list[int]:
        return list(range(len(chunks)))

    with phases("read, signatures, explode, group"):
        chunks = col("min_hashes").slice(0, bands * rows).chunk(rows)
        exploded = (
            signatures(given)
            .with_column("bands", chunks)
            .with_column("band_idx", band_idx(col("bands")))
            .explode("bands", "band_idx")
        )
        groups = (
            exploded.groupby(col("band_idx"), col("bands"))
            .agg(col("id").list_agg().alias("nodes"))
            .where(col("nodes").length() > 1)
            .select("nodes")
            .to_pydict()["nodes"]
        )
    with phases("pairs"):
        pairs = {pair for nodes in groups for pair in itertools.combinations(sorted(nodes), 2)}
    shared.write(given.output, "daft", phases, setting=f"{bands} x {rows}", pairs=pairs)
    leave()


if __name__ == "__main__":
    main()
