"""The OpenLineage events of runs keep the published schemas of the standard, which are in a folder next to this file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Iterator

import pytest

import resemblance

from .conftest import REPOSITORY, Collector, needs

JSONSCHEMA = needs("jsonschema")
REFERENCING = needs("referencing")
SCHEMAS = Path(__file__).parent / "openlineage"
QUICKSTART = REPOSITORY / "jobs" / "quickstart.toml"
PARENT = "airflow/reviews.similar/01234567-89ab-4cde-8f01-23456789abcd"


@pytest.fixture(autouse=True)
def exported(collector: Collector, monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment points to the collector, and names the run that started this one."""
    monkeypatch.setenv("OPENLINEAGE_URL", collector.url)
    monkeypatch.setenv("OPENLINEAGE_PARENT_ID", PARENT)
    for name in ("OPENLINEAGE_DISABLED", "OPENLINEAGE__TRANSPORT__TYPE"):
        monkeypatch.delenv(name, raising=False)


def sent_to(collector: Collector) -> list[dict[str, Any]]:
    """The events that were sent, in their order."""
    return [json.loads(body) for _, _, body in collector.sent]


def registry() -> Any:
    """All schemas, by the names that events and schemas call them by."""
    schemas = [json.loads(path.read_text()) for path in SCHEMAS.glob("*.json")]
    assert len(schemas) > 10
    resources = [(schema["$id"], REFERENCING.Resource.from_contents(schema)) for schema in schemas]
    return REFERENCING.Registry().with_resources(resources)


SCHEMAS_BY_NAME = registry()


def check(value: Any, url: str) -> None:
    """Holds a value against a part of a schema, which the value itself names by its URL."""
    validator = JSONSCHEMA.Draft202012Validator(
        {"$ref": url}, registry=SCHEMAS_BY_NAME, format_checker=JSONSCHEMA.Draft202012Validator.FORMAT_CHECKER
    )
    validator.validate(value)


def facets(value: Any) -> Iterator[dict[str, Any]]:
    """Every facet in an event, at any depth."""
    if isinstance(value, dict):
        if "_schemaURL" in value:
            yield value
        for inner in value.values():
            yield from facets(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from facets(inner)


def kept(events: list[dict[str, Any]]) -> set[str]:
    """Checks all events and their facets, and gives the schemas that were used."""
    used = set()
    for event in events:
        check(event, event["schemaURL"])
        for facet in facets(event):
            check(facet, facet["_schemaURL"])
            used.add(facet["_schemaURL"].split("/")[-1])
    return used


def test_complete_and_failed_runs_keep_the_schemas(collector: Collector, tmp_path: Path) -> None:
    out = tmp_path / "out"
    resemblance.run(QUICKSTART, output__url=out, alarms__removed_share=0.01, progress=False)
    with pytest.raises(resemblance.AlarmError):
        resemblance.run(QUICKSTART, output__url=out, alarms__largest_cluster=1, alarms__fail=True, progress=False)
    with pytest.raises(resemblance.InputError):
        resemblance.run(QUICKSTART, output__url=out, source__url=tmp_path / "none", progress=False)
    events = sent_to(collector)
    kinds = [event["eventType"] for event in events]
    assert kinds == ["START", "COMPLETE", "START", "COMPLETE", "START", "FAIL"]
    used = kept(events)
    # Each schema of a facet is used, so that no copy stays which nothing needs.
    assert used == {path.stem for path in SCHEMAS.glob("*Facet.json")}


def test_what_breaks_a_schema_is_found(collector: Collector, tmp_path: Path) -> None:
    resemblance.run(QUICKSTART, output__url=tmp_path / "out", progress=False)
    events = sent_to(collector)
    kept(events)
    complete = events[-1]
    complete["outputs"][0]["facets"]["version"]["datasetVersion"] = 7
    with pytest.raises(JSONSCHEMA.ValidationError):
        kept(events)
    complete["outputs"][0]["facets"]["version"]["datasetVersion"] = "7"
    del complete["job"]["namespace"]
    with pytest.raises(JSONSCHEMA.ValidationError):
        kept(events)
