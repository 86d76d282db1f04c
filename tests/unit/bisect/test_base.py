from __future__ import annotations

import pytest

from perfcli.bisect.forge import _common_base


@pytest.mark.parametrize(
    ("wanted", "base"),
    [
        ([{}, {"a": 1}, {"b": 2}, {"c": 3}], {}),
        ([{"a": 1}, {"a": 1, "b": 2}, {"a": 1, "c": 3}, {"a": 2}], {"a": 1}),
        # True, 1 and 1.0 are three values; of equally frequent ones the first.
        ([{"a": True}, {"a": 1}, {"a": 1}, {"a": 1.0}], {"a": 1}),
        # One change less of three: what leaves one out can't part from all.
        ([{"b": 1, "c": 1}, {"a": 1, "c": 1}, {"a": 1, "b": 1}], None),
        ([{}, {"a": [1]}], None),
    ],
)
def test_what_most_have(wanted: list[dict[str, object]], base: dict[str, object] | None) -> None:
    found = _common_base(wanted, 3)  # type: ignore[arg-type]
    assert found == base
    assert [type(v) for v in (found or {}).values()] == [type(v) for v in (base or {}).values()]
