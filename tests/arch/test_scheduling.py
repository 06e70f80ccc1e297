"""Which tests stay together: decided by their place alone."""

from __future__ import annotations

from tests.scheduling import scope_of


def test_files_stay_together_and_what_needs_no_process_is_dealt_out() -> None:
    spark = {scope_of(f"tests/pipeline/{name}") for name in ("test_a.py::x", "deep/test_b.py::y")}
    local = {scope_of(f"tests/cli/test_dev_{name}.py::x") for name in ("cluster", "persisting")}
    assert (len(spark), len(local)) == (1, 1)
    assert spark != local
    assert scope_of("tests/shell/test_a.py::x[a::b]") == scope_of("tests/shell/test_a.py::y")
    assert scope_of("tests/shell/test_a.py::x") != scope_of("tests/shell/test_b.py::x")
    assert scope_of("tests/core/deep/test_a.py::x[a]") != scope_of(
        "tests/core/deep/test_a.py::x[b]"
    )
