"""Reviews in CSV: tokens without digits and stop words, CRC-32, kept by the agreement of the signatures.

    python3 reviews.py CSV STOP_WORDS THRESHOLD SIZE [write]      prints the answer; with `write`, first writes the CSV

A review without shingles has an empty set, whose signature is all maximum.
"""

import csv
import os
import re
import sys
import zlib

from common import answer, documents, nearness
from coefficients import draw

FUNCTIONS, MODULUS, COLUMN = 128, 2**32 - 1, "review/text"


def write(path):
    with open(path, "w", encoding="utf-8", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["Id", COLUMN])
        rows.writerows([f"book{number % 9}", text] for number, text in enumerate(documents(300, seed=9)))


def shingles(text, stop_words, size):
    tokens = re.findall(r"\b\w+\b", text.lower())
    tokens = [token for token in tokens if not token.isdigit() and token not in stop_words]
    return {zlib.crc32(", ".join(tokens[at:at + size]).encode()) for at in range(len(tokens) - size + 1)}


def main(path, stop_path, threshold, size, *writing):
    if writing:
        write(path)
    with open(stop_path, encoding="utf-8") as file:
        stop_words = set(file.read().split())
    csv.field_size_limit(sys.maxsize)
    with open(path, encoding="utf-8", newline="") as file:
        sets = {f"{os.path.basename(path)}:{row}": shingles(record[COLUMN], stop_words, size)
                for row, record in enumerate(csv.DictReader(file)) if record[COLUMN].strip()}
    # b divides the number of functions, and (1/b)^(1/r) is nearest to the threshold.
    divisors = [(FUNCTIONS // rows, rows) for rows in range(1, FUNCTIONS + 1) if FUNCTIONS % rows == 0]
    bands, rows = min(divisors, key=lambda pair: abs(nearness(*pair) - threshold))

    def bucket(number, band):
        return number, zlib.crc32(str(band).encode())

    answer(sets, draw(42, FUNCTIONS, MODULUS), MODULUS, bands, rows, bucket, lambda estimate, _: estimate >= threshold)


main(sys.argv[1], sys.argv[2], float(sys.argv[3]), int(sys.argv[4]), *sys.argv[5:])
