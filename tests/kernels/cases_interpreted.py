"""Runs cases of a family through Triton's interpreter, in a process of its own: the interpreter is
chosen before Triton is imported. The family and the numbers of its cases come as arguments; prints
a line of JSON per case."""

from __future__ import annotations

import json
import os
import sys

os.environ["TRITON_INTERPRET"] = "1"

from perfcli.handwritten.checking import _check_case, plan_case
from perfcli.handwritten.interpreter import prepare
from perfcli.loading import registry
from perfcli.machine import targets
from perfcli.model.kernel_work import CheckRequest

prepare()
NAME = sys.argv[1]
FAMILY = registry.family(NAME)
for number in json.loads(sys.argv[2]):
    case = plan_case(FAMILY, FAMILY.cases[number], targets.get("h200"), "interpreter")
    request = CheckRequest(NAME, (case,), "interpreter", 1, 7)
    checked = _check_case(request, case, "cpu", number)
    answer = [number, checked.outcome, checked.variant, checked.reason]
    sys.stdout.write(json.dumps(answer) + "\n")
