"""Compares the rows of two builds of the program: every table of many jobs, made by OLD and by NEW, has to be equal.

    python tests/same_rows.py OLD NEW [--only WORD] [--documents 3000] [--reuters ../shared/data/reuters21578] [--renamed OLD=NEW ...]

OLD and NEW are two `resemblance` commands. The jobs are those of `jobs/` that bring their documents, jobs over generated
corpora with every method, measure and option that has stages of its own, what `merge` and `apply` make of them, and Reuters if it
is there. Each job runs with 256MiB and one thread, with 4GiB and four threads, and on a cluster of two executors. The first of
these is also compared with the other two, so that memory, threads and engine change no row either.

It needs pyarrow. Columns that only one of the builds has are named and not compared; `--renamed` gives
tables and columns that NEW calls otherwise. The exit code is 1 if a row differs.
"""

import argparse
import json
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request

import pyarrow.dataset as dataset
import pyarrow.parquet as parquet

REPOSITORY = pathlib.Path(__file__).resolve().parent.parent
SETTINGS = {
    "small": ["engine.memory=256MiB", "engine.threads=1"],
    "large": ["engine.memory=4GiB", "engine.threads=4"],
}
TABLES = ["pairs", "clusters", "documents", "rejects", "reference_rejects", "group_pairs", "cluster_id_changes", "dictionary",
          "spans", "passages", "spared", "cluster_levels", "frequent_shingles"]
# What differs from one build or output to the next, and says nothing about the rows.
IGNORED = {"doc", "source", "kept_source", "kept_position", "origin_number", "kept_origin_number"}


def run(binary, *arguments):
    done = subprocess.run([binary, *arguments], capture_output=True, text=True, cwd=REPOSITORY)
    if done.returncode not in (0, 6):
        sys.exit(f"{binary} {' '.join(map(str, arguments))}: exit code {done.returncode}\n{done.stderr}")


def plain(value):
    """A value that can be sorted: lists become tuples, and NULL comes first."""
    if isinstance(value, list):
        value = tuple(value)
    return (value is not None, value)


# What NEW calls tables and columns of OLD.
RENAMED = {}


def table_folder(output, name):
    """The folder of a table, by its name in NEW."""
    old = next((old for old, new in RENAMED.items() if new == name), name)
    places = [output / old, output / name, output / "_resemblance" / name]
    return next((place for place in places if any(place.glob("part-*"))), output / name)


def rows_of(folder, columns):
    table = dataset.dataset(folder, format="parquet").to_table()
    table = table.rename_columns([RENAMED.get(name, name) for name in table.column_names]).select(columns)
    return sorted(tuple(map(plain, row.values())) for row in table.to_pylist())


def columns_of(folder):
    return {RENAMED.get(name, name) for name in dataset.dataset(folder, format="parquet").schema.names} - IGNORED


def kept_folder(path):
    """The folder of the files that apply kept, also of versions before 0.2."""
    return path / "kept" if (path / "kept").is_dir() else path


def kept_files(folder):
    if not (folder.name == "kept" or (folder / "_resemblance").is_dir()):
        return []
    files = (file for file in folder.rglob("*") if "_resemblance" not in file.relative_to(folder).parts)
    return sorted(file for file in files if file.is_file())


def differences(one, other):
    """What differs between the tables of two outputs, one sentence each."""
    for name in TABLES + ["removed"]:
        folders = [table_folder(path, name) for path in (one, other)]
        there = [any(folder.glob("part-*")) for folder in folders]
        if there == [False, False]:
            continue
        if there[0] != there[1]:
            yield f"{name}: only one of the two has it"
            continue
        of_one, of_other = map(columns_of, folders)
        if of_one != of_other:
            yield f"{name}: only one of the two has the columns {sorted(of_one ^ of_other)}"
        both = sorted(of_one & of_other)
        left, right = rows_of(folders[0], both), rows_of(folders[1], both)
        if left != right:
            missing, more = len(set(left) - set(right)), len(set(right) - set(left))
            yield f"{name}: {len(left)} and {len(right)} rows, {missing} and {more} of them only in one"
    roots = [kept_folder(path) for path in (one, other)]
    kept = [kept_files(root) for root in roots]
    names = [[str(file.relative_to(root)) for file in files] for files, root in zip(kept, roots)]
    if names[0] != names[1]:
        yield f"kept: {names[0]} and {names[1]}"
        return
    for left, right in zip(*kept):
        if left.suffix == ".parquet" and parquet.read_table(left) != parquet.read_table(right):
            yield f"kept: {left.name} differs"
        elif left.is_file() and left.suffix != ".parquet" and left.read_bytes() != right.read_bytes():
            yield f"kept: {left.name} differs"


class Cluster:
    """A scheduler and two executors of one build."""

    def __init__(self, binary, folder):
        ports = [free_port() for _ in range(3)]
        self.url = f"df://127.0.0.1:{ports[0]}"
        self.processes = [self.start(binary, folder, "scheduler", "--bind", f"127.0.0.1:{ports[0]}")]
        for number, port in enumerate(ports[1:]):
            work = folder / f"work-{ports[0]}-{number}"
            self.processes.append(
                self.start(binary, folder, "executor", "--scheduler", f"127.0.0.1:{ports[0]}", "--bind",
                           f"127.0.0.1:{port}", "--health", f"127.0.0.1:{free_port()}", "--advertise", "127.0.0.1",
                           "--vcores", "1", "--memory", "512MiB", "--work-dir", str(work))
            )
        until = time.monotonic() + 60
        while not self.ready(ports[0]):
            if time.monotonic() > until:
                sys.exit("the cluster did not start within 60 seconds")
            time.sleep(0.2)

    @staticmethod
    def start(binary, folder, *arguments):
        log = open(folder / "cluster.log", "ab")
        return subprocess.Popen([binary, *arguments], stdout=log, stderr=log)

    @staticmethod
    def ready(port):
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/executors") as answer:
                return len(json.load(answer)) == 2
        except OSError:
            return False

    def stop(self):
        for process in self.processes:
            process.terminate()
        for process in self.processes:
            process.wait()


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def jobs(scratch, documents, reuters):
    """(name, job file, settings, what follows): the corpora are in `scratch`."""
    day, all_days, hard = scratch / "day1", scratch / "all", scratch / "hard"
    table = REPOSITORY / "jobs/parquet.toml"

    def over(source, *settings):
        return [f"source.url={source}/", "score.threshold=0.6", *settings]

    grouped = ["source.group=lot"]
    yield "quickstart", REPOSITORY / "jobs/quickstart.toml", [], ["apply"]
    yield "decontaminate", REPOSITORY / "jobs/decontaminate.toml", [], ["apply"]
    yield "lsh", table, over(all_days), ["apply"]
    yield "lsh-hot", table, over(hard, "lsh.hot_bucket=20", "output.max_expand=10"), []
    yield "lsh-star", table, over(all_days, "output.expand=star", "output.keep=shingles"), ["apply"]
    yield "prefix", table, over(all_days, "candidates.method=prefix"), []
    yield "prefix-dense", table, over(hard, "candidates.method=prefix", "output.max_expand=10"), []
    yield "all", table, over(day, "candidates.method=all"), []
    yield "containment", table, over(all_days, "candidates.method=prefix", "score.measure=containment"), []
    yield "within", table, over(all_days, "candidates.compare=within", *grouped), []
    yield "across", table, over(all_days, "candidates.compare=across", *grouped), ["apply"]
    yield "representative", table, over(all_days, "clusters.method=representative"), ["apply"]
    yield "one-permutation", table, over(all_days, "minhash.family=one-permutation"), []
    yield "signature", table, over(all_days, "score.by=signature"), []
    yield "passages", table, over(day, "output.pair_passages=true"), []
    yield "dictionary", table, over(day, "shingle.hash=dictionary"), []
    yield "buckets", table, over(hard, "lsh.hot_bucket=20"), []
    yield "word-runs", table, over(hard, "passages.unit=word", "passages.length=8"), ["apply"]
    yield "contained", table, over(all_days, "clusters.contained=0.9"), ["apply"]
    yield "levels", table, over(all_days, "clusters.thresholds=[0.7, 0.8, 0.9]"), []
    yield "templates", table, over(hard, "shingle.max_frequency=0.2"), []
    known = [f'against.source={{format="parquet",url="{day}/",id="id",text="text"}}']
    yield "linked", table, over(scratch / "day2", "against.pairs=new-old", *known), ["apply"]
    yield "day1", table, over(day), []
    yield "day2", table, over(scratch / "day2"), ["against day1", "merge"]
    if reuters.is_dir():
        source = f"source.url={reuters}/"
        yield "reuters", REPOSITORY / "jobs/recipes/reuters.toml", [source, "score.threshold=0.5"], ["apply"]
        exact = [source, "score.threshold=0.5", "candidates.method=prefix"]
        yield "reuters-prefix", REPOSITORY / "jobs/recipes/reuters.toml", exact, []
    else:
        print(f"SKIPPED: there is no Reuters in {reuters}", file=sys.stderr)


def generate(binary, scratch, documents):
    """Two days, both together, and pages with headers and copies; each with a column `lot`."""
    import pyarrow

    def write(name, *options):
        made = scratch / f"{name}.parquet"
        run(binary, "generate", made, "--words", "60", *options)
        table = parquet.read_table(made)
        lots = pyarrow.array([str(number % 5) if number % 7 else None for number in range(len(table))])
        return table.append_column("lot", lots)

    corpus = write("corpus", "--documents", str(documents), "--copies", "0.1", "--near", "0.2")
    hard = write("boilerplate", "--documents", str(documents // 3), "--boilerplate", "0.4", "--identical", "60")
    half = len(corpus) // 2
    for name, table in [("day1", corpus[:half]), ("day2", corpus[half:]), ("all", corpus), ("hard", hard)]:
        (scratch / name).mkdir()
        third = len(table) // 3 + 1
        for number in range(3):
            part = table.slice(number * third, third)
            parquet.write_table(part, scratch / name / f"{number}.parquet", row_group_size=200)


def outputs_of(binary, folder, job, settings, follows, engine):
    """Runs a job and what follows it; gives the folders that were written."""
    sets = [word for setting in [*settings, *engine] for word in ("--set", setting)]
    made = folder / "output"
    against = [follow.removeprefix("against ") for follow in follows if follow.startswith("against ")]
    for name in against:
        sets += ["--set", f"against.output={folder.parent / name / 'output'}"]
    run(binary, "run", job, *sets, "--set", f"output.url={made}")
    yield made
    if "merge" in follows:
        merged = folder / "merged"
        run(binary, "merge", *[folder.parent / name / "output" for name in against], made, "--to", merged)
        yield merged
    if "apply" in follows:
        applied = folder / "applied"
        run(binary, "apply", made, "--to", applied)
        yield applied


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("old", type=pathlib.Path)
    parser.add_argument("new", type=pathlib.Path)
    parser.add_argument("--only", default="", help="only jobs whose name holds this word")
    parser.add_argument("--documents", type=int, default=3000)
    parser.add_argument("--reuters", type=pathlib.Path, default=REPOSITORY.parent / "shared/data/reuters21578")
    parser.add_argument("--renamed", nargs="*", default=[], metavar="OLD=NEW", help="tables and columns with other names")
    given = parser.parse_args()
    RENAMED.update(name.split("=") for name in given.renamed)
    # Tables of a few hundred documents are small, and are to be read by executors.
    os.environ["RESEMBLANCE_SMALL_STAGES"] = "1B"
    binaries = {"old": given.old.resolve(), "new": given.new.resolve()}
    failed = compared = 0
    with tempfile.TemporaryDirectory() as folder:
        scratch = pathlib.Path(folder)
        generate(binaries["old"], scratch, given.documents)
        clusters = {which: Cluster(binary, scratch) for which, binary in binaries.items()}
        try:
            for name, job, settings, follows in jobs(scratch, given.documents, given.reuters.resolve()):
                if given.only not in name and not any(given.only in follow for follow in follows):
                    continue
                made = {}
                for which, binary in binaries.items():
                    on_cluster = ["engine.mode=cluster", f"engine.scheduler={clusters[which].url}"]
                    for engine, options in {**SETTINGS, "cluster": on_cluster}.items():
                        of_job = scratch / f"{which}-{engine}" / name
                        of_job.mkdir(parents=True)
                        made[which, engine] = list(outputs_of(binary, of_job, job, settings, follows, options))
                held = [(("old", engine), ("new", engine)) for engine in (*SETTINGS, "cluster")]
                held += [(("new", "small"), ("new", "large")), (("new", "small"), ("new", "cluster"))]
                for one, other in held:
                    for left, right in zip(made[one], made[other]):
                        compared += 1
                        for difference in differences(left, right):
                            failed += 1
                            print(f"{name}, {left.name}, {' '.join(one)} : {' '.join(other)}: {difference}")
                print(f"{name}: {sum(map(len, made.values()))} outputs", flush=True)
        finally:
            for cluster in clusters.values():
                cluster.stop()
    print(f"{compared} outputs compared, {failed} differences")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
