"""perfcli in a Python program: ``perfcli.inspect(fn, args, target="h100")``.

Takes a function or module of the running program; gives ``Kernels`` with their totals, findings and
comparisons. The program's tensors are described to a worker, and their values never leave it.
"""

from perfcli.library.asking import InspectOptions, inspect
from perfcli.library.compared import Compared
from perfcli.library.compiling import close
from perfcli.library.kernel import Kernel, NotKnown, Total
from perfcli.library.kernels import Kernels

__all__ = [
    "Compared",
    "InspectOptions",
    "Kernel",
    "Kernels",
    "NotKnown",
    "Total",
    "close",
    "inspect",
]
