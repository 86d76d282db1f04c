"""The user's own files that a run imported: when they change, its result may."""

from __future__ import annotations

import hashlib
import sys
import sysconfig
from pathlib import Path


def user_sources() -> dict[str, str]:
    """Path to SHA-256 of every imported file outside the standard library, installed packages
    and perfcli itself."""
    roots = [Path(sysconfig.get_path(name)).resolve() for name in ("stdlib", "purelib", "platlib")]
    roots.append(Path(__file__).resolve().parents[1])
    found: dict[str, str] = {}
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        # By name as well: scenarios/ is a package of perfcli that can lie elsewhere.
        if not file or not file.endswith(".py") or name.startswith("perfcli."):
            continue
        path = Path(file).resolve()
        if any(path.is_relative_to(root) for root in roots) or _generated(path):
            continue
        try:
            found[str(path)] = hashlib.sha256(path.read_bytes()).hexdigest()
        except OSError:
            continue  # written and removed while it ran: nothing to come back to
    return dict(sorted(found.items()))


def _generated(path: Path) -> bool:
    import os

    cache = os.environ.get("TORCHINDUCTOR_CACHE_DIR")
    return bool(cache) and path.is_relative_to(Path(cache or "/").resolve())
