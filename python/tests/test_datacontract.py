"""The contracts of outputs, as datacontract-cli and dbt read them."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import resemblance

from .conftest import needs, needs_environment

needs_environment("datacontract")
DATACONTRACT = needs("datacontract.data_contract")
YAML = needs("yaml")


def contract(output: str, kind: str) -> str:
    """What the command prints."""
    command = [resemblance.command(), "contract", output, "--format", kind]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def results_of(text: str, folder: Path) -> list[tuple[str, str]]:
    """Name and result of each check that is not about types, which datacontract-cli does not read from Parquet."""
    path = folder / "contract.odcs.yaml"
    path.write_text(text)
    run = DATACONTRACT.DataContract(data_contract_file=str(path)).test()
    checks = [(check.name, getattr(check.result, "value", check.result)) for check in run.checks]
    return [(name, result) for name, result in checks if result != "warning"]


def test_an_output_keeps_its_contract(quickstart: resemblance.Run, tmp_path: Path) -> None:
    text = contract(quickstart.output, "odcs")
    checks = results_of(text, tmp_path)
    assert len(checks) > 40, checks
    assert {result for _, result in checks} == {"passed"}, [check for check in checks if check[1] != "passed"]
    document = YAML.safe_load(text)
    assert (document["name"], document["apiVersion"]) == ("quickstart", "v3.1.0")
    assert {table["name"] for table in document["schema"]} == set(quickstart.record["manifest"]["tables"])


def test_a_broken_table_breaks_its_contract(quickstart: resemblance.Run, tmp_path: Path) -> None:
    document: dict[str, Any] = YAML.safe_load(contract(quickstart.output, "odcs"))
    folder = tmp_path / "out"
    for table in document["schema"]:
        rows = getattr(quickstart, table["name"]).to_arrow()
        (folder / table["name"]).mkdir(parents=True)
        if table["name"] == "pairs":
            at = rows.schema.get_field_index("jaccard")
            rows = rows.set_column(at, "jaccard", [[2.0] * rows.num_rows])
        pq.write_table(rows, folder / table["name"] / "part.parquet")
    document["servers"][0]["path"] = f"{folder}/{{model}}/*.parquet"
    failed = [name for name, result in results_of(json.dumps(document), tmp_path) if result != "passed"]
    assert any("jaccard BETWEEN 0 AND 1" in name for name in failed), failed


@pytest.mark.parametrize("table", ["pairs", "clusters", "documents", "rejects"])
def test_sources_of_dbt_have_the_columns_of_the_files(quickstart: resemblance.Run, table: str) -> None:
    document = YAML.safe_load(contract(quickstart.output, "dbt"))
    (source,) = document["sources"]
    (described,) = (found for found in source["tables"] if found["name"] == table)
    rows = getattr(quickstart, table).to_arrow()
    assert [column["name"] for column in described["columns"]] == rows.schema.names
    nullable = [column["name"] for column in described["columns"] if "data_tests" not in column]
    assert all(rows[name].null_count == 0 for name in rows.schema.names if name not in nullable)
    location = described["meta"]["external_location"]
    assert list(Path("/").glob(location.lstrip("/"))), location
    assert any("dbt_utils.unique_combination_of_columns" in test for test in described["data_tests"])
