"""Draws the coefficients of linear hash functions as a Python program does, one `a,b` a line, for `minhash.coefficients`.

    python3 coefficients.py [SEED [PERMUTATIONS [MODULUS]]]     (42, 128 and 2^32 - 1 by default)
"""

import random
import sys


def draw(seed=42, permutations=128, modulus=2**32 - 1):
    """a from 1 and b from 0 to the modulus, without it: all a first, then all b."""
    rng = random.Random(seed)
    a = [rng.randint(1, modulus - 1) for _ in range(permutations)]
    b = [rng.randint(0, modulus - 1) for _ in range(permutations)]
    return list(zip(a, b))


def distinct(seed, permutations, most):
    """a and b from 1 to `most`, each without replacement."""
    rng = random.Random(seed)
    a = rng.sample(range(1, most + 1), permutations)
    b = rng.sample(range(1, most + 1), permutations)
    return list(zip(a, b))


if __name__ == "__main__":
    print("a,b")
    for pair in draw(*map(int, sys.argv[1:])):
        print(*pair, sep=",")
