"""perfcli in a Python program: ``perfcli.inspect(fn, args, target="h100")``."""

from perfcli.library.asking import inspect
from perfcli.library.compared import Compared
from perfcli.library.compiling import close
from perfcli.library.kernel import Kernel, NotKnown, Total
from perfcli.library.kernels import Kernels

__all__ = ["Compared", "Kernel", "Kernels", "NotKnown", "Total", "close", "inspect"]
