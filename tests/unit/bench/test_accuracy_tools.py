from __future__ import annotations

import pytest
from accuracy_tools import REGRESSED

# As pytest-benchmark 5.3.1 printed it.
PRINTED = """Performance has regressed:
\ttest_step (0001_base) - Field 'mean' has failed PercentageRegressionCheck: 41.44 > 5.000000000
\ttest_step (0001_base) - Field 'median' has failed PercentageRegressionCheck: 38.40 > 5.000000000
"""


@pytest.mark.parametrize(
    ("printed", "fields"),
    [(PRINTED, ["mean", "median"]), (PRINTED.splitlines()[2], ["median"]), ("1 passed", [])],
)
def test_which_fields_pytest_benchmark_says_have_regressed(printed: str, fields: list[str]) -> None:
    assert REGRESSED.findall(printed) == fields
