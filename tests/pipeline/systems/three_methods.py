"""Long documents: white space folded, runs of nine characters cut line by line, SHA-256 below 2^31 - 1.

    python3 three_methods.py FOLDER THRESHOLD      writes UTF-8 files into FOLDER and prints the answer
"""

import hashlib
import os
import re
import sys

from common import answer, documents, nearness
from coefficients import draw

SIZE, FUNCTIONS, PRIME = 9, 100, 2**31 - 1


def shingles(path):
    """A file's shingles; what a line leaves over goes before the next one."""
    found, rest = set(), ""
    with open(path, encoding="utf-8", newline="") as file:
        for line in file:
            rest = re.sub(r"[ \t\r\n]+", " ", rest + line)
            for at in range(len(rest) - SIZE + 1):
                digest = hashlib.sha256(rest[at:at + SIZE].encode()).digest()
                found.add(int.from_bytes(digest, "big") % PRIME)
            rest = rest[-(SIZE - 1):]
    return found


def main(folder, threshold):
    sets = {}
    for number, text in enumerate(documents(300, seed=8)):
        name = f"{number:04}.txt"
        path = os.path.join(folder, name)
        with open(path, "w", encoding="utf-8", newline="") as file:
            file.write(text)
        found = shingles(path)
        if found:
            sets[name] = found
    # b * r is the signature's length, and (1/b)^(1/r) is the nearest that is not over the threshold.
    divisors = [(FUNCTIONS // rows, rows) for rows in range(1, FUNCTIONS + 1) if FUNCTIONS % rows == 0]
    bands, rows = max((pair for pair in divisors if nearness(*pair) <= threshold), key=lambda pair: nearness(*pair))
    answer(sets, draw(1, FUNCTIONS, PRIME), PRIME, bands, rows, lambda number, band: (number, band),
           lambda estimate, _: estimate >= threshold)


main(sys.argv[1], float(sys.argv[2]))
