"""Prints the results of the runs as Markdown."""

import ast
import os
import re
import sys

import report
from bench import HERE, OURS, SQL, Bench, Outcome


def heading(bench: Bench, counts: dict):
    given, of = bench.given, counts["all"]
    print(f"{of['documents']:,} documents, {of['words']:,} words, {of['bytes'] / 1e6:,.1f} MB of text;", end=" ")
    print(
        f"{given.shingle}-word shingles, {given.permutations} permutations, threshold {given.threshold};",
        end=" ",
    )
    print(f"{given.cores} cores: {report.machine()}, Python {sys.version.split()[0]}.\n")
    print("Wall and CPU are medians of the runs, the peak is their largest. The last three columns are multiples")
    print("of what `resemblance` takes for the same documents.\n")


def programs(outcomes: list[Outcome], counts: dict):
    head = [
        "program",
        "version",
        "bands x rows",
        "runs",
        "wall s",
        "CPU s",
        "core-hours a TB",
        "peak MiB",
        "pairs",
        "recall",
        "precision",
    ]
    rows = []
    for outcome in outcomes:
        documents = counts[outcome.input]["documents"]
        name = outcome.name + ("" if outcome.input == "all" else f" (the first {documents:,})")
        if not outcome.runs:
            rows.append([name, f"no result: {outcome.failure.replace('|', '/')}", *[""] * (len(head) + 1)])
            continue
        score = outcome.score
        found = "-" if score["found"] is None else f"{score['found']:,}"
        if outcome.removed is not None:
            found = f"{outcome.removed:,} removed"
        runs = len(outcome.runs)
        if outcome.failure:
            runs = f"{runs}, then {outcome.failure.replace('|', '/')}"
        row = [name, outcome.version, outcome.setting, runs, report.seconds(outcome.wall())]
        hours = outcome.cpu() / 3600 / (counts[outcome.input]["bytes"] / 1e12)
        row += [report.seconds(outcome.cpu()), f"{hours:,.1f}", report.mebibytes(outcome.peak()), found]
        row += [report.share(score["hits"], score["exact"])]
        row += [report.share(score["hits"], score["found"] or score.get("in_clusters"))]
        ours = next(o for o in outcomes if o.name == OURS and o.input == outcome.input)
        if ours.runs:
            row += [report.times(outcome.wall(), ours.wall()), report.times(outcome.cpu(), ours.cpu())]
            row += [report.times(outcome.peak(), ours.peak())]
        rows.append(row + [""] * (len(head) + 3 - len(row)))
    print(report.table([*head, "x wall", "x CPU", "x peak"], rows) + "\n")


def details(outcomes: list[Outcome]):
    """Prints what each program does, from the docstring of its file, and its seconds per phase."""
    print("What each does, and its seconds by phase (median; without the start of the process):\n")
    for outcome in outcomes:
        if outcome.runs and not (outcome.name == OURS and outcome.input == "sample"):
            phases = ", ".join(f"{name} {outcome.phase(name):.2f}" for name in (outcome.phases or [{}])[0])
            if outcome.name == OURS:
                says = (
                    f'the whole job with `candidates.method = "{outcome.method}"`: signatures, candidates, exact '
                )
                says += "verification, and the tables of pairs, clusters, documents and rejects as Parquet."
            elif outcome.name == SQL:
                says = "from Parquet to signatures in SQL: `shingles`, which normalises, and `minhash`; of each "
                says += "signature one value is summed. No banding, no join, no pairs."
            else:
                source = (HERE / "peers" / f"{outcome.name.replace('-', '_')}.py").read_text()
                says = " ".join(ast.get_docstring(ast.parse(source)).split())
                says = re.sub(r"^\w+: ", "", says)
            print(f"- **{outcome.name}**: {says}" + (f" *{phases}*" if phases else ""))
    if any(outcome.removed is not None for outcome in outcomes):
        print(
            "\nWhere documents are removed, recall is the share of the exact pairs whose two documents are in one"
        )
        print("cluster, and precision the share of the exact ones among all pairs within clusters.")
    print()


def stages(outcomes: list[Outcome], counts: dict):
    """Prints the seconds of each stage of `resemblance`, and the core-hours a Terabyte, as if each used all cores."""
    ours = next(o for o in outcomes if o.name == OURS and o.input == "all")
    if ours.runs:
        cores, terabytes = len(os.sched_getaffinity(0)), counts["all"]["bytes"] / 1e12
        times = {name: ours.phase(name) for name in ours.phases[0]}
        rows = [
            [f"`{name}`", report.seconds(time), f"{time * cores / 3600 / terabytes:.2f}"]
            for name, time in times.items()
            if time * 50 >= sum(times.values())
        ]
        print(report.table(["stage (of 2 % or more)", "wall s", "core-hours a TB"], rows) + "\n")


def signatures(outcomes: list[Outcome], counts: dict):
    """Compares Daft's `minhash`, from Parquet to signatures, with the same in SQL and with the stage of a whole job."""
    of = {outcome.name: outcome for outcome in outcomes if outcome.input == "all" and outcome.runs}
    if OURS not in of or "daft-minhash" not in of:
        return
    ours, daft = of[OURS], of["daft-minhash"]
    rows = [
        ("Daft: query (normalises, `minhash`; all held in memory)", daft.phase("read, normalise, signatures")),
        ("Daft: process of that query", daft.wall()),
    ]
    if SQL in of:
        rows.append(("resemblance: process of the query in SQL", of[SQL].wall()))
    what = (
        "resemblance: stage `sketches` of a job (also bands, counts and the shingle sets, all written as Parquet)"
    )
    rows += [(what, ours.phase("sketches")), ("resemblance: process of the whole job", ours.wall())]
    megabytes, reference = counts["all"]["bytes"] / 1e6, rows[0][1]
    cells = [[what, f"{s:.3f}", f"{megabytes / s:,.0f}", f"{reference / s:.2f}"] for what, s in rows]
    print(f"From Parquet to signatures, {megabytes:,.1f} MB of text:\n")
    print(report.table(["what", "seconds", "MB/s", "x Daft's query"], cells) + "\n")


def goals(outcomes: list[Outcome], counts: dict, reuters: bool):
    """Prints the goals of the project and the measured values.

    The goals apply to Reuters-21578. The goals for signatures apply to 150 MB of text or more.
    """
    of = {outcome.name: outcome for outcome in outcomes if outcome.input == "all" and outcome.runs}
    if not (ours := of.get(OURS)):
        return
    rows = []

    def goal(what: str, wanted: str, measured: str, met: bool):
        rows.append([what, wanted, measured, "yes" if met else "**no**"])

    for name, factor in (("datasketch", 20), ("rensa", 5), ("datatrove", 100)):
        if reuters and name in of:
            ratio = of[name].wall() / ours.wall()
            goal(f"wall, {name} / {OURS}", f"{factor}", f"{ratio:.1f}", ratio >= factor)
    score = ours.score
    if reuters and score["exact"]:
        best = max([o.score["hits"] for o in of.values() if o is not ours and o.score["hits"]], default=0)
        wanted, reached = report.share(best, score["exact"]), report.share(score["hits"], score["exact"])
        goal("recall, of the best of the peers", wanted, reached, score["hits"] >= best)
        goal("precision", "1", report.share(score["hits"], score["found"]), score["hits"] == score["found"])
    if reuters:
        goal("peak MiB, at most", "300", report.mebibytes(ours.peak()), ours.peak() <= 300 * 2**20)
    if counts["all"]["bytes"] >= 150e6 and "daft-minhash" in of:
        query = of["daft-minhash"].phase("read, normalise, signatures")
        ways = [("stage `sketches`", ours.phase("sketches"))]
        if SQL in of:
            ways.append(("process of the query in SQL", of[SQL].wall()))
        for way, seconds in ways:
            goal(
                f"from Parquet to signatures, Daft's query / {way}",
                "4",
                f"{query / seconds:.1f}",
                query >= 4 * seconds,
            )
    if rows:
        print(report.table(["goal", "wanted", "measured", "met"], rows))
