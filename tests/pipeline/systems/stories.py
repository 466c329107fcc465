"""News stories in SGML: words without newlines and non-letters, every shingle its own number, the next prime.

    python3 stories.py SGML write                            writes the stories
    python3 stories.py SGML DICTIONARY THRESHOLD SIZE        prints the answer

DICTIONARY is a CSV of (number, shingle). Which number a shingle has is free, so it is taken from there, and checked: every
shingle of the stories has one, from 1 on, and nothing else has.
"""

import csv
import re
import sys
import zlib

from common import answer, documents, most_selective
from coefficients import distinct

FUNCTIONS, LEAST_WORDS = 128, 8


def write(path):
    with open(path, "w", encoding="utf-8", newline="") as file:
        for number, text in enumerate(documents(300, seed=10)):
            body = f"<BODY>{text}\n Reuter\n</BODY>" if number % 25 else ""
            file.write(f'<REUTERS OLDID="{5000 + number}" NEWID="{number}">\n<TEXT>{body}</TEXT>\n</REUTERS>\n')


def words_of(body):
    text = body.replace("\n", "").replace("\r", "").lower()
    text = "".join(letter for letter in text if letter.isalpha() or letter.isspace())
    return re.sub(r"\s+", " ", text).split()


def first_prime_above(number):
    candidate = number + 1
    while any(candidate % divisor == 0 for divisor in range(2, int(candidate**0.5) + 1)):
        candidate += 1
    return candidate


def main(path, dictionary, threshold, size):
    with open(path, encoding="utf-8", newline="") as file:
        text = file.read()
    stories = {}
    for story in text.split("<REUTERS ")[1:]:
        body = re.search(r"<BODY>(.*?)</BODY>", story, re.DOTALL)
        if body:
            words = words_of(body.group(1))
            if len(words) >= LEAST_WORDS:
                oldid = re.search(r'OLDID="(\d+)"', story).group(1)
                stories[oldid] = {" ".join(words[at:at + size]) for at in range(len(words) - size + 1)}
    with open(dictionary, encoding="utf-8", newline="") as file:
        numbers = {shingle: int(number) for number, shingle in csv.reader(file)}
    assert set(numbers) == set().union(*stories.values()), "the dictionary has other shingles than the stories"
    assert sorted(numbers.values()) == list(range(1, len(numbers) + 1)), "the numbers are not 1, 2, 3 and so on"
    sets = {oldid: {numbers[shingle] for shingle in found} for oldid, found in stories.items()}
    bands, rows = most_selective(FUNCTIONS, threshold, 0.99)

    def bucket(number, band):
        return number, format(zlib.crc32("_".join(map(str, band)).encode()), "x")

    answer(sets, distinct(42, FUNCTIONS, len(numbers)), first_prime_above(len(numbers)), bands, rows, bucket,
           lambda _, exact: exact >= threshold)


if sys.argv[2] == "write":
    write(sys.argv[1])
else:
    main(sys.argv[1], sys.argv[2], float(sys.argv[3]), int(sys.argv[4]))
