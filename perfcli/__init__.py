"""perfcli finds, explains and gates performance regressions in torch.compile's kernels.

``perfcli.inspect`` is the library; the command line begins in ``perfcli/cli.py``. Importing this
package imports nothing else.
"""

from pathlib import Path

__version__ = "0.1.0"

# A wheel holds kernels/, scenarios/ and reports/ inside perfcli/; a checkout keeps them beside it.
_here = Path(__file__).parent
if not (_here / "kernels").is_dir():
    __path__.append(str(_here.parent))


def __getattr__(name: str) -> object:
    """``perfcli.inspect`` and its types, imported when they are asked for: see ``__init__.pyi``."""
    if name not in ("Compared", "InspectOptions", "Kernel", "Kernels", "inspect"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module("perfcli.library"), name)
