"""How Python classifies every character: a digit for each code point, and the lower case of those that have one.

Bits: 1, assigned; 2, `\\w` of `re`; 4, `str.isdigit`; 8, white space of the folding of long documents.
"""

import json
import re
import sys
import unicodedata

WORD, FOLDED = re.compile(r"\w"), re.compile(r"[ \t\r\n]+")


def bits(c):
    if unicodedata.category(c) in ("Cn", "Cs"):
        return 0
    return 1 + 2 * bool(WORD.fullmatch(c)) + 4 * c.isdigit() + 8 * (FOLDED.sub(" ", f"a{c}b") == "a b")


every = [chr(code) for code in range(sys.maxunicode + 1)]
json.dump({
    "classes": "".join(f"{bits(c):x}" for c in every),
    "lower": {c: c.lower() for c in every if c.lower() != c},
}, sys.stdout)
