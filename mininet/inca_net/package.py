"""The Python package as a folder to import it from, made of what `cargo build -p inca-python` built.

    inca-agent's folder: lib_native.so   ->   target/python-package/FOLDER/inca/_native.abi3.so
    python/inca/*                        ->   target/python-package/FOLDER/inca/

What users install is the wheel (`make python`); this is the same package without the detour, for tests and
experiments here.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from .nodes import ROOT, MissingProgramError, find_binary

LIBRARY = "lib_native.so"


def python_package() -> Path:
    """A folder for PYTHONPATH; raises MissingProgramError if the library was not built."""
    folder = Path(find_binary("inca-agent")).parent
    library = folder / LIBRARY
    if not library.exists():
        raise MissingProgramError(f"{library} not found; run: cargo build -p inca-python")
    staged = ROOT / "target" / "python-package" / folder.name
    package = staged / "inca"
    package.mkdir(parents=True, exist_ok=True)
    for source in (ROOT / "python" / "inca").iterdir():
        if source.is_file():
            shutil.copy2(source, package / source.name)
    native = package / "_native.abi3.so"
    if not native.exists() or native.stat().st_mtime < library.stat().st_mtime:
        # A new file: processes that run may have the old one in use.
        fresh = native.with_suffix(".new")
        shutil.copy2(library, fresh)
        fresh.replace(native)
    return staged
