#!/usr/bin/env python3
"""Builds two data sets of real texts from published packages: long texts and short texts, as Parquet (`id`, `text`).

    python3 benches/peers/corpus.py data/corpus

The sources are the crates of `Cargo.lock`, and the named packages below for Python, Debian and npm. The clients of the
package managers download them to the subfolder `packages`, and each package that fails is reported. Versions are
pinned, except those of Debian, which has one version of a package per release. Debian 12, dpkg, cargo, pip, npm and
pyarrow are required. About 1.4 GB of packages are downloaded. The order of packages and texts is always the same.

`long` has one row for each source file, manual page or page of documentation with at least 200 words. `short` has one
row for each paragraph of 8 to 200 words: of documentation, of comments and docstrings, of descriptions of Debian
packages, of dictionaries, and of message catalogues. Paragraphs end at blank lines. In HTML, block elements are
paragraphs. In manual pages, requests other than those for fonts are. Markup is removed from HTML alone.

Files are left out if they are over 1 MB, are not UTF-8, or have a letter in fewer than half of their bytes. So are
sources with a line of over 2,000 bytes, or with `generated` or `do not edit` in the first kilobyte. A package gives
at most 100 MB of long and 25 MB of short texts. Copies are kept. A text is assigned to one of 16 files by a checksum
of its id, so each file is a sample of the whole.
"""

import gzip
import html
import io
import gettext
import multiprocessing
import os
import pathlib
import re
import subprocess
import sys
import tarfile
import zipfile
import zlib

import pyarrow
import pyarrow.parquet

FILES, LARGEST, MOST_LONG, MOST_SHORT = 16, 1_000_000, 100_000_000, 25_000_000
CAT = "/usr/lib/apt/apt-helper"
LANGUAGES = "en,de,fr,es,it,pt_BR,pl,da,nl,sv,cs,fi,hu"
DEBIAN = """
apache2-doc aptitude-doc-en aptitude-doc-fr bash-doc bind9-doc cppreference-doc-en-html debian-faq debian-handbook debian-history
debian-policy debian-reference-de debian-reference-en debian-reference-fr developers-reference dict-devil dict-foldoc
dict-freedict-deu-eng dict-freedict-eng-deu dict-jargon dict-vera dpdk-doc emacs-common emacs-el erlang-doc evolution-common
exim4-doc-html fp-docs-3.2.2 gap-doc ghc-doc git-doc gnome-user-docs gnuplot-doc installation-guide-amd64 ledger libboost1.81-doc
libreoffice-help-de libreoffice-help-en-gb libreoffice-help-es libreoffice-help-fr libreoffice-help-it libreoffice-l10n-de
libreoffice-l10n-es libreoffice-l10n-fr libstdc++-12-doc lilypond-doc-html lilypond-doc-html-es lilypond-doc-html-fr linux-doc-6.1
linux-source-6.1 maint-guide manpages manpages-cs manpages-da manpages-de manpages-dev manpages-es manpages-fi manpages-fr manpages-hu
manpages-it manpages-nl manpages-pl manpages-pt-br manpages-ro manpages-sv maxima-doc nodejs-doc octave-doc openjdk-17-doc pari-doc
perl-doc postfix-doc postgresql-doc-15 python-astropy-doc python-django-doc python-pandas-doc python-scipy-doc python-sklearn-doc
python-sympy-doc python3.11-doc qtbase5-doc-html racket-doc rust-doc scala-doc singular-doc slapd sphinx-doc sqlite3-doc tcl8.6-doc
twisted-doc vim-runtime zsh-doc
"""
PYTHON = """
aiohttp==3.14.5 ansible-core==2.21.5 ansible==14.5.0 apache-airflow-core==3.3.2 astropy==8.0.2 babel==2.18.0 biopython==1.88 bokeh==3.10.1
celery==5.7.0 cinder==29.0.0 conan==2.34.0 dask==2026.8.0 diffusers==0.42.1 django==6.1.3 docutils==0.23 esphome==2026.10.0 gensim==4.4.0
horizon==27.0.0 jax==0.12.0.1 keras==3.15.1 langchain-community==0.4.2 matplotlib==3.11.2 meson==1.12.1 moto==5.2.5 mypy==2.4.1
networkx==3.7 neutron==29.0.0 nltk==3.10.4 nova==34.0.0 numpy==2.5.5 pandas==3.1.1 pennylane==0.45.1 pylint==4.1.4 pymc==6.4.0
qiskit==2.6.1 sagemaker==3.27.0 scikit-image==0.26.0 scikit-learn==1.9.1 scrapy==2.19.0 setuptools==84.2.1 sphinx==9.2.0 sqlalchemy==2.1.9
statsmodels==0.15.0 swift==2.38.3 sympy==1.14.0 tensorflow-probability==0.25.0 timm==1.0.31 transformers==5.23.0 twisted==26.10.0
wagtail==8.0.1 xarray==2026.9.0 yt-dlp==2026.10.26
"""
NPM = """
@angular/core@22.2.6 @babylonjs/core@9.31.0 @mui/material@9.5.0 @stdlib/stdlib@0.4.1 @types/node@26.6.6 antd@6.6.8 cesium@1.145.0
core-js@3.51.0 ember-source@7.3.0 eslint@10.15.0 mathjs@15.2.0 mongodb@7.8.0 ol@10.10.0 rxjs@7.8.2 sequelize@6.37.8 three@0.187.0
typeorm@1.1.1 webpack@5.112.2
"""
KIND = dict.fromkeys("html htm xhtml xml page docbook".split(), "markup")
KIND |= dict.fromkeys("md rst txt texi texinfo tex pod".split(), "prose")
KIND |= dict.fromkeys("c h cc cpp hpp rs js ts tsx jsx java go py pyi pyx rb pl pm sh el ml hs".split(), "source")
KIND |= {"mo": "catalogue", "dz": "entries"}
COMMENT = re.compile(r'/\*.*?\*/|"""[^"]{40,}?"""|(?:^[ \t]*(?://|#|;;)[^\n]*\n){1,200}', re.DOTALL | re.MULTILINE)
MARKER = re.compile(r"^[ \t]*(?:/\*+|\*+/?|//[/!]?|#+|;+|\"\"\")?", re.MULTILINE)
HIDDEN = re.compile(r"<(script|style|head)\b.*?</\1>|<!--.*?-->", re.DOTALL)
BLOCKS = r"p|div|li|ul|ol|h\d|td|th|tr|table|pre|dd|dt|dl|section|br|title|para|nav|blockquote"
BLOCK = re.compile(rf"</?(?:{BLOCKS})\b[^>]*>")
TAG = re.compile(r"<[^>]*>")
FONT = re.compile(r"^\.[BI][BIR]? +", re.MULTILINE)
REQUEST = re.compile(r"^[.'].*$", re.MULTILINE)
FIELD = re.compile(r"^(?: \.|[A-Z][\w-]*:.*)$", re.MULTILINE)
LETTERS = re.compile(r"[^\W\d_]+")


def fetch(root: pathlib.Path) -> list[tuple[str, pathlib.Path]]:
    """Downloads the packages that are missing, and returns the name and file of each package."""
    lists = root / "lists"
    (lists / "partial").mkdir(parents=True, exist_ok=True)
    apt = ["apt-get", "-q", "-o", f"Dir::State::lists={lists}", "-o", f"Acquire::Languages={LANGUAGES}"]
    run([*apt, "update"], root)
    pip = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--python-version=3.13"]
    clients = [("debian", [*apt, "download"], DEBIAN), ("python", pip, PYTHON), ("npm", ["npm", "pack"], NPM)]
    packages = [("debian/descriptions", path) for path in sorted(lists.glob("*Translation-*"))]
    for client, command, names in clients:
        for name in names.split():
            folder = root / client / name.replace("/", "+")
            folder.mkdir(parents=True, exist_ok=True)
            if not any(folder.iterdir()) and not run([*command, name], folder):
                continue
            packages += [(f"{client}/{folder.name}", path) for path in sorted(folder.iterdir())]
    manifest = pathlib.Path(__file__).resolve().parents[2] / "Cargo.toml"
    run(["cargo", "fetch", "--locked", "--manifest-path", manifest], root, CARGO_HOME=root / "cargo")
    crates = sorted((root / "cargo").glob("registry/cache/*/*.crate"))
    return packages + [(f"crates/{path.stem}", path) for path in crates if not path.name.startswith("windows")]


def run(command: list, folder: pathlib.Path, **variables) -> bool:
    """Runs a client of a package manager. Reports a failure and returns False."""
    done = subprocess.run(command, cwd=folder, env={**os.environ, **variables}, capture_output=True)
    if done.returncode != 0:
        print("failed:", *command, "\n" + done.stderr.decode(errors="replace")[-400:], file=sys.stderr)
    return done.returncode == 0


def members(path: pathlib.Path):
    """Yields the name and bytes of each file of a known kind in a package."""
    if path.suffix == ".whl":
        with zipfile.ZipFile(path) as archive:
            yield from ((i.filename, archive.read(i)) for i in archive.infolist() if kind(i.filename))
    elif path.suffix == ".deb":
        command, pipe, quiet = ["dpkg-deb", "--fsys-tarfile", path], subprocess.PIPE, subprocess.DEVNULL
        with subprocess.Popen(command, stdout=pipe, stderr=quiet) as process:
            yield from unpack(process.stdout)
    else:
        with path.open("rb") as stream:
            yield from unpack(stream)


def unpack(stream):
    with tarfile.open(fileobj=stream, mode="r|*") as archive:
        for member in filter(tarfile.TarInfo.isfile, archive):
            if member.name.endswith(".tar.xz"):
                yield from unpack(archive.extractfile(member))
            elif kind(member.name):
                yield member.name, archive.extractfile(member).read()


def kind(name: str) -> str | None:
    if "_i18n_Translation-" in name:
        return "descriptions"
    name = name.removesuffix(".gz")
    return "roff" if re.search(r"/man\d/[^/]*$", name) else KIND.get(name.rpartition(".")[2].lower())


def paragraphs(text: str) -> list[str]:
    parts = (part.strip() for part in re.split(r"\n\s*\n", text))
    return [part for part in parts if 8 <= len(part.split()) <= 200 and lettered(part)]


def lettered(text: str) -> bool:
    return sum(map(len, LETTERS.findall(text))) * 2 >= len(text)


def texts(name: str, data: bytes) -> tuple[str, list[str]]:
    """Returns the long text of a file, or "", and its short texts."""
    what = kind(name)
    data = gzip.decompress(data) if name.endswith((".gz", ".dz")) else data
    if what == "catalogue":
        messages = gettext.GNUTranslations(io.BytesIO(data))._catalog
        return "", [part for key in messages if key for part in paragraphs(messages[key])]
    text = data.decode()
    if what in ("descriptions", "entries"):
        return "", paragraphs(FIELD.sub("", text) if what == "descriptions" else text)
    if len(data) > LARGEST or not lettered(text):
        return "", []
    if what == "source":
        if re.search("generated|do not edit", text[:1000], re.IGNORECASE) or max(map(len, text.split("\n"))) > 2000:
            return "", []
        short = "\n\n".join(MARKER.sub("", comment) for comment in COMMENT.findall(text))
    elif what == "markup":
        text = html.unescape(TAG.sub("", BLOCK.sub("\n\n", HIDDEN.sub("", text))))
        text = short = re.sub(r"\n\s*\n", "\n\n", text)
    elif what == "roff":
        short = re.sub(r"\\f.|\\", "", REQUEST.sub("\n", FONT.sub("", text)))
    else:
        short = text
    return text if len(text.split()) >= 200 else "", paragraphs(short)


def read(package: tuple[str, pathlib.Path]) -> tuple[list, list]:
    """Returns the rows (id, text) of the long and short texts of a package."""
    name, path = package
    long, short, sizes = [], [], [0, 0]
    files = members(path)
    if name == "debian/descriptions":
        files = [(path.name.partition("_dists_")[2], subprocess.check_output([CAT, "cat-file", path]))]
    for member, data in files:
        try:
            whole, parts = texts(member, data)
        except (UnicodeDecodeError, OSError, EOFError, zlib.error):  # not UTF-8, or not in the format of its name
            continue
        if sizes[0] >= MOST_LONG and sizes[1] >= MOST_SHORT:
            break
        if whole and sizes[0] < MOST_LONG:
            long.append((f"{name}/{member}", whole))
            sizes[0] += len(whole)
        for number, part in enumerate(parts):
            if sizes[1] < MOST_SHORT:
                short.append((f"{name}/{member}#{number}", part))
                sizes[1] += len(part)
    return long, short


SCHEMA = pyarrow.schema({"id": pyarrow.string(), "text": pyarrow.string()})


class DataSet:
    """Writes the rows of one data set to its files, and counts them."""

    def __init__(self, folder: pathlib.Path):
        folder.mkdir(parents=True)
        self.folder, self.rows, self.bytes = folder, 0, 0
        paths = [folder / f"part-{number:02}.parquet" for number in range(FILES)]
        self.writers = [pyarrow.parquet.ParquetWriter(path, SCHEMA, compression="zstd") for path in paths]
        self.waiting = [[] for _ in paths]

    def add(self, rows: list[tuple[str, str]], most: int = 5_000):
        for row in rows:
            self.waiting[zlib.crc32(row[0].encode()) % FILES].append(row)
        self.rows += len(rows)
        self.bytes += sum(len(text.encode()) for _, text in rows)
        for writer, waiting in zip(self.writers, self.waiting):
            if len(waiting) > most:
                columns = [pyarrow.array(column, pyarrow.string()) for column in zip(*waiting)]
                writer.write_table(pyarrow.Table.from_arrays(columns, schema=SCHEMA))
                waiting.clear()

    def close(self):
        self.add([], 0)
        for writer in self.writers:
            writer.close()
        print(f"{self.folder}: {self.rows:,} texts, {self.bytes:,} bytes")


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    root = pathlib.Path(sys.argv[1]).absolute()
    packages = fetch(root / "packages")
    sets = [DataSet(root / "long"), DataSet(root / "short")]
    with multiprocessing.Pool() as pool:
        for (name, path), rows in zip(packages, pool.imap(read, packages)):
            for each, data in zip(sets, rows):
                each.add(data)
            print(f"{name}:", *(f"{len(data):,} texts, {sum(len(t) for _, t in data):,}" for data in rows))
    for each in sets:
        each.close()


if __name__ == "__main__":
    main()
