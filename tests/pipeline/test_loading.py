"""`import` and `export` with Spark: files to a real cluster and back."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from rich.console import Console

from holdfast_spark.errors import SparkError
from holdfast_spark.jobs.asking import Cluster
from holdfast_spark.jobs.command import main, parser
from holdfast_spark.jobs.loading import Choice, Files, Map, export_map, import_map
from holdfast_spark.jobs.progress import Shown
from holdfast_spark.options import Format
from tests.pipeline.sessions import ask, put, read, some
from tests.shell.http.clusters import SECRET, Processes


def map_of(cluster: Processes, name: str, values: Format = Format.RAW) -> Map:
    return Map(Cluster(tuple(each.url for each in cluster.living()), SECRET), name, values)


def people(spark: SparkSession) -> DataFrame:
    return spark.range(100).selectExpr(
        "id", "concat('p', id) AS name", "IF(id < 10, double(5000), NULL) AS seconds"
    )


@pytest.mark.parametrize("kind", ["parquet", "json", "csv"])
def test_files_become_a_map_with_expressions_for_key_and_life(
    spark: SparkSession, cluster: Processes, tmp_path: Path, kind: str
) -> None:
    path = str(tmp_path / "people")
    options = {"header": "true"} if kind == "csv" else {}
    people(spark).write.format(kind).options(**options).save(path)
    name = f"people-{kind}"
    put(cluster, some(name, 3))
    files = Files(path, kind, options, "id LONG, name STRING, seconds DOUBLE")
    choice = Choice("concat('id-', id)", ttl="seconds", where="id % 2 = 0")
    target = map_of(cluster, name, Format.JSON)
    assert import_map(spark, files, target, choice, replace=True) == 50
    value = json.loads(ask(cluster, "GET", f"{name}:id-8"))
    assert (value["id"], value["name"]) == (8, "p8")
    assert 0 < ask(cluster, "TTL", f"{name}:id-8") <= 5000
    assert ask(cluster, "TTL", f"{name}:id-12") == -1
    assert ask(cluster, "EXISTS", f"{name}:id-9") == ask(cluster, "EXISTS", f"{name}:1") == 0


@pytest.mark.parametrize("kind", ["parquet", "json", "csv"])
def test_an_export_is_imported_again(
    spark: SparkSession, cluster: Processes, tmp_path: Path, kind: str
) -> None:
    name = f"out-{kind}"
    put(cluster, some(name, 30), ("PEXPIREAT", f"{name}:3", "4000000000000"))
    options = {"header": "true"} if kind == "csv" else {}
    schema = "key STRING, value STRING, expires_at TIMESTAMP" if kind == "csv" else ""
    if kind == "json":
        schema = "key STRING, value BINARY, expires_at TIMESTAMP"
    path = str(tmp_path / "out")
    source = map_of(cluster, name)
    assert export_map(spark, source, Files(path, kind, options), where="key <> '5'") == 29
    with pytest.raises(SparkError, match=r"export: .*PATH_ALREADY_EXISTS"):
        export_map(spark, source, Files(path, kind, options))
    back = map_of(cluster, f"back-{kind}")
    assert import_map(spark, Files(path, kind, options, schema), back, Choice()) == 29
    found = {row.key: bytes(row.value) for row in read(spark, cluster, f"back-{kind}").collect()}
    expected = some(name, 30)
    assert found == {
        key.decode().partition(":")[2]: value
        for key, value in expected.items()
        if not key.endswith(b":5")
    }
    assert ask(cluster, "PEXPIRETIME", f"back-{kind}:3") == 4000000000000


def test_what_makes_no_sense_is_told_in_a_line(
    spark: SparkSession, cluster: Processes, tmp_path: Path
) -> None:
    path = str(tmp_path / "people")
    people(spark).write.parquet(path)
    files, raw = Files(path, "parquet"), map_of(cluster, "refused")
    as_json = map_of(cluster, "refused", Format.JSON)
    wrong = Map(Cluster(("http://127.0.0.1:9",)), "refused", Format.JSON)
    for told, one, target, choice in (
        (r"import: .*UNRESOLVED_COLUMN.*nokey", files, as_json, Choice("nokey")),
        (r"import: columns id, name, seconds: say which is", files, raw, Choice("id")),
        (r"import: .*PATH_NOT_FOUND", Files("/nowhere", "parquet"), raw, Choice("id")),
        (r"import: .*key", files, as_json, Choice("IF(id = 3, NULL, id)")),
        (r"import: .*option 'endpoints': map 'refused' at http://127", files, wrong, Choice("id")),
    ):
        with pytest.raises(SparkError, match=told) as refused:
            import_map(spark, one, target, choice)
        assert "\n" not in refused.value.message
    named = people(spark).withColumnRenamed("name", "version")
    named.write.parquet(str(tmp_path / "named"))
    with pytest.raises(SparkError, match="column 'version' can't be a field of a value"):
        import_map(spark, Files(str(tmp_path / "named"), "parquet"), as_json, Choice("id"))
    assert ask(cluster, "EXISTS", "refused:1") == 0


def test_the_commands_do_the_same(
    spark: SparkSession,
    cluster: Processes,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    people(spark).write.parquet(str(tmp_path / "in"))
    secret = tmp_path / "secret"
    secret.write_text(SECRET, encoding="utf-8")
    where = ["--endpoints", cluster.living()[0].url, "--secret-file", str(secret)]

    def told(*words: str) -> dict[str, object]:
        given = parser().parse_args(["--output", "json", *words, *where])
        assert given.run(spark, given, Shown(Console(stderr=True))) == 0
        found: dict[str, object] = json.loads(capsys.readouterr().out)
        return found

    one = ["--map", "commanded", "--values", "json"]
    assert told("import", str(tmp_path / "in"), "--key", "id", *one)["rows"] == 100
    schema = ["--schema", "key STRING, id LONG, name STRING"]
    assert told("export", str(tmp_path / "out"), *one, *schema)["rows"] == 100
    assert spark.read.parquet(str(tmp_path / "out")).where("name = 'p7'").collect()[0].id == 7
    cluster.settle()
    found = told("audit", "--save", str(tmp_path / "audit"))
    assert (found["equal"], found["unequal_fragments"]) == (True, 0)
    assert spark.read.parquet(str(tmp_path / "audit" / "fragments")).count() == found["fragments"]


def test_without_java_a_line_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", "/nowhere")
    assert main(["audit", "--endpoints", "http://127.0.0.1:9"]) == 2
    said = capsys.readouterr().err
    assert "apt install openjdk-17-jre-headless" in said
    assert said.count("\n") == 1
