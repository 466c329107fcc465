"""Writes the documents that all peers read, so that all peers have the same words.

Texts are converted to lower case, and adjacent characters other than a-z are replaced by one space. Documents with
fewer than `--min-words` words are skipped. Ids are integers from 0. Prints counts as JSON.
"""

import argparse
import json
import pathlib
import re
import sys

import pyarrow
import pyarrow.dataset
import pyarrow.parquet

OTHER = re.compile("[^a-z]+")
BODY = re.compile("<BODY>(.*?)</BODY>", re.DOTALL)
# References stand for characters that words do not contain.
REFERENCE = re.compile("&(?:#[0-9]+|lt|gt|amp);")


def from_parquet(paths: list[str], text: str):
    """Yields the texts in Parquet files and folders."""
    for path in paths:
        dataset = pyarrow.dataset.dataset(path, format="parquet")
        if text not in dataset.schema.names:
            sys.exit(f"error: --text must name a column of {path}: {', '.join(dataset.schema.names)}; not {text}")
        for batch in dataset.to_batches(columns=[text]):
            yield from (value or "" for value in batch.column(0).cast(pyarrow.string()).to_pylist())


def from_reuters(folder: str):
    """Yields the bodies of the stories in a folder of Reuters-21578 (`*.sgm`)."""
    for path in sorted(pathlib.Path(folder).glob("*.sgm")):
        for body in BODY.finditer(path.read_text(encoding="latin-1")):
            yield REFERENCE.sub(" ", body[1])


def write(texts: list[str], folder: pathlib.Path, parts: int) -> dict[str, int]:
    """Writes the texts in order as `parts` files with the same number of rows."""
    folder.mkdir(parents=True)
    schema = pyarrow.schema({"id": pyarrow.int64(), "text": pyarrow.string()})
    size = -(-len(texts) // parts) or 1
    for part, start in enumerate(range(0, len(texts), size)):
        chunk = texts[start : start + size]
        columns = [pyarrow.array(range(start, start + len(chunk)), pyarrow.int64()), pyarrow.array(chunk)]
        table = pyarrow.Table.from_arrays(columns, schema=schema)
        pyarrow.parquet.write_table(table, folder / f"part-{part}.parquet", row_group_size=20_000)
    return {
        "documents": len(texts),
        "bytes": sum(map(len, texts)),
        "words": sum(t.count(" ") + 1 for t in texts),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("output", type=pathlib.Path)
    parser.add_argument("--parquet", nargs="+")
    parser.add_argument("--text")
    parser.add_argument("--reuters")
    parser.add_argument("--documents", type=int, default=0)
    parser.add_argument("--sample", type=int, required=True)
    parser.add_argument("--min-words", type=int, required=True)
    parser.add_argument("--parts", type=int, required=True)
    given = parser.parse_args()

    texts, left_out = [], 0
    for raw in from_reuters(given.reuters) if given.reuters else from_parquet(given.parquet, given.text):
        text = OTHER.sub(" ", raw.lower()).strip()
        if text.count(" ") + 1 < given.min_words or not text:
            left_out += 1
            continue
        texts.append(text)
        if len(texts) == given.documents:
            break
    if not texts:
        sys.exit(f"error: there is no document of {given.min_words} words or more in the documents given")
    counts = {
        "all": write(texts, given.output / "all", given.parts),
        "sample": write(texts[: given.sample], given.output / "sample", given.parts),
        "left_out": left_out,
    }
    print(json.dumps(counts))


if __name__ == "__main__":
    main()
