"""Similar files: character shingles, CRC-32, linear functions, one table for all bands, three filters in a row.

    python3 similar_files.py FOLDER THRESHOLD      writes Latin-1 files into FOLDER and prints the answer
"""

import os
import sys
import zlib

from common import answer, documents, most_selective
from coefficients import draw

SIZE, FUNCTIONS, MODULUS, TABLE = 10, 100, 4294967291, 20000


def shingles(text):
    text = text.lower().replace(" ", "_")
    return {zlib.crc32(text[at:at + SIZE].encode()) for at in range(len(text) - SIZE + 1)}


def main(folder, threshold):
    sets = {}
    for number, text in enumerate(documents(300)):
        name = f"{number:04}.txt"
        with open(os.path.join(folder, name), "w", encoding="latin-1", newline="") as file:
            file.write(text)
        with open(os.path.join(folder, name), encoding="latin-1", newline="") as file:
            found = shingles(file.read())
        if found:
            sets[name] = found
    bands, rows = most_selective(FUNCTIONS, threshold, 0.99)

    def bucket(_, band):
        return zlib.crc32("_".join(map(str, band)).encode()) % TABLE

    answer(sets, draw(1, FUNCTIONS, MODULUS), MODULUS, bands, rows, bucket,
           lambda estimate, exact: estimate >= threshold and exact >= threshold)


main(sys.argv[1], float(sys.argv[2]))
