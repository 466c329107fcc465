"""What the four programs share: documents to compare, hash functions, bands, candidates, pairs and neighbors.

Plain Python, the standard library alone, written from the systems' descriptions.
"""

import itertools
import json
import random
import sys

WORDS = (
    "the price of gold and oil rose in london today after a report that the bank would not lower its rate while "
    "traders said they had expected more from this meeting café naïve señor don't it's 1987 42 3.5 x1 Über"
).split()


GAPS = [" ", " ", " ", " ", "  ", "\n", "\t", ", ", ". "]


def documents(count, seed=7):
    """Texts of words, some of them edited copies of earlier ones, some exact copies, some very short."""
    rng = random.Random(seed)

    def word():
        made = rng.choice(WORDS) + rng.choice(["", "", "", "s", "ly"])
        return (made.capitalize() if rng.random() < 0.1 else made) + rng.choice(GAPS)

    texts = []
    for _ in range(count):
        kind = rng.random()
        if texts and kind < 0.4:
            words = list(rng.choice(texts))
            for _ in range(rng.randrange(4)):
                words[rng.randrange(len(words))] = word()
        elif kind < 0.47:
            words = [rng.choice(["the ", "gold ", "42 ", "x1\n", "not "]) for _ in range(rng.randrange(1, 4))]
        else:
            words = [word() for _ in range(rng.randrange(20, 60))]
        texts.append(words)
    return ["".join(words) for words in texts]


def signature(shingles, coefficients, modulus):
    """The least value of each function over the set; where that is empty, what the search for them starts with."""
    return [min(((a * x + b) % modulus for x in shingles), default=2**32 - 1) for a, b in coefficients]


def agreement(equal, length):
    return equal / length


def jaccard(shared, union):
    """Two empty sets are the same set."""
    return shared / union if union else 1.0


def nearness(bands, rows):
    return (1 / bands) ** (1 / rows)


def recall(threshold, bands, rows):
    return 1 - (1 - threshold**rows) ** bands


def most_selective(permutations, threshold, target):
    """The largest r, then the fewest b, that find this share of the pairs at the threshold."""
    for rows in range(permutations, 0, -1):
        for bands in range(1, permutations // rows + 1):
            if recall(threshold, bands, rows) >= target:
                return bands, rows
    raise ValueError("out of reach")


def candidates(signatures, bands, rows, bucket):
    """Every two documents that share a bucket; `bucket` makes of a band's number and its values what they share."""
    table = {}
    for name, values in signatures.items():
        for number in range(bands):
            band = tuple(values[number * rows:(number + 1) * rows])
            table.setdefault(bucket(number, band), set()).add(name)
    found = set()
    for names in table.values():
        found.update(itertools.combinations(sorted(names), 2))
    return found


def answer(sets, coefficients, modulus, bands, rows, bucket, keep):
    """Everything that there is to compare, as JSON on standard output."""
    signatures = {name: signature(s, coefficients, modulus) for name, s in sets.items()}
    found = candidates(signatures, bands, rows, bucket)
    # Counts: equal values of the signatures, shared shingles, and shingles of both together.
    counts = {}
    for a, b in found:
        equal = sum(x == y for x, y in zip(signatures[a], signatures[b]))
        counts[a, b] = (equal, len(sets[a] & sets[b]), len(sets[a] | sets[b]))

    def scores(equal, shared, union):
        return agreement(equal, len(coefficients)), jaccard(shared, union)

    neighbors = {name: [] for name in sets}
    for (a, b), of_pair in counts.items():
        neighbors[a].append((b, *of_pair))
        neighbors[b].append((a, *of_pair))
    for near in neighbors.values():
        near.sort(key=lambda n: (*(-score for score in scores(*n[1:])), n[0]))
    json.dump({
        "bands": bands,
        "rows": rows,
        "coefficients": coefficients,
        "signatures": signatures,
        "candidates": sorted([a, b, *of_pair] for (a, b), of_pair in counts.items()),
        "pairs": sorted([a, b, *of_pair] for (a, b), of_pair in counts.items() if keep(*scores(*of_pair))),
        "neighbors": {name: near[:10] for name, near in neighbors.items()},
    }, sys.stdout)
