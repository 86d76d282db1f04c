"""Starts a worker in any interpreter: makes this very perfcli importable there, and nothing else
of this interpreter's packages. Run as a file: ``python -P bootstrap.py REQUEST_FD REPLY_FD``."""

import importlib.util
import sys
from pathlib import Path


def _load_perfcli() -> None:
    package = Path(__file__).resolve().parents[1]
    spec = importlib.util.spec_from_file_location(
        "perfcli", package / "__init__.py", submodule_search_locations=[str(package)]
    )
    if spec is None or spec.loader is None:
        raise SystemExit(f"perfcli cannot be loaded from {package}")
    module = importlib.util.module_from_spec(spec)
    sys.modules["perfcli"] = module
    spec.loader.exec_module(module)


if __name__ == "__main__":
    _load_perfcli()
    from perfcli.worker.child import serve

    raise SystemExit(serve(int(sys.argv[1]), int(sys.argv[2])))
