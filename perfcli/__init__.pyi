from perfcli.library import Compared as Compared
from perfcli.library import InspectOptions as InspectOptions
from perfcli.library import Kernel as Kernel
from perfcli.library import Kernels as Kernels
from perfcli.library import inspect as inspect

__version__: str
