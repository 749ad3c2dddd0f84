#!/usr/bin/env python3
"""Compiles the P4 program, or checks that what is committed belongs to the sources.

    p4/build.py            compile p4/inca.p4 into p4/compiled/ (needs p4c-bm2-ss on PATH)
    p4/build.py --plain D  compile it into folder D as p4c leaves it, without fuse.py, to compare
    p4/build.py --check    fail if p4/compiled/ was not made from these sources; with p4c on PATH, compile again
                           and compare

The hash of all sources stands in p4/compiled/SOURCES.sha256.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from fuse import fuse

HERE = Path(__file__).resolve().parent
COMPILER = "p4c-bm2-ss"
# Copy propagation repeats wide expressions wherever they are used: the JSON grows tenfold and the switch slows down.
NO_COPY_PROPAGATION = ["--excludeMidendPasses", "P4::LocalCopyPropagation"]
FLAGS = ["--std", "p4-16", "--arch", "v1model"]


class Program:
    """One P4 program: a main file with the folder's other sources, and where its compiled form is kept."""

    def __init__(self, main: Path, compiled: Path, flags: list[str], fused: bool = True) -> None:
        self.main = main
        self.flags = FLAGS + flags
        self.fused = fused
        self.json = compiled / f"{main.stem}.json"
        self.p4info = compiled / f"{main.stem}.p4info.txtpb"
        self.stamp = compiled / "SOURCES.sha256"

    def source_hash(self) -> str:
        """SHA-256 over names and contents of the main file's folder's .p4 files, and of fuse.py if it had a part."""
        digest = hashlib.sha256()
        for source in sorted(self.main.parent.glob("*.p4")) + ([HERE / "fuse.py"] if self.fused else []):
            digest.update(source.name.encode() + b"\0" + source.read_bytes() + b"\0")
        return digest.hexdigest()

    def compile_into(self, folder: Path) -> tuple[Path, Path]:
        """Runs the compiler and, if wanted, fuse.py; returns the JSON (without source positions) and the P4Info."""
        json_file, p4info = folder / self.json.name, folder / self.p4info.name
        command = [COMPILER, *self.flags, "--p4runtime-files", str(p4info), "-o", str(json_file), self.main.name]
        done = subprocess.run(command, cwd=self.main.parent, capture_output=True, text=True, timeout=600, check=False)
        if done.returncode != 0:
            sys.exit(f"{' '.join(command)} failed:\n{done.stderr}")
        if done.stderr.strip():
            print(done.stderr.strip(), file=sys.stderr)
        program = without_source_info(json.loads(json_file.read_text()))
        program["program"] = self.main.name
        if self.fused:
            fuse(program)
        json_file.write_text(json.dumps(program, separators=(",", ":")) + "\n")
        return json_file, p4info

    def build(self) -> None:
        """Compiles and replaces what is committed."""
        self.json.parent.mkdir(parents=True, exist_ok=True)
        json_file, _ = self.compile_into(self.json.parent)
        self.stamp.write_text(self.source_hash() + "\n")
        print(f"{self.main.name}: {json_file.stat().st_size / 1e6:.1f} MB of JSON")

    def check(self) -> str | None:
        """None if the committed form is fresh, otherwise what is wrong."""
        if not (self.json.exists() and self.p4info.exists() and self.stamp.exists()):
            return f"{self.json.parent} is incomplete: run `make p4`"
        if self.stamp.read_text().strip() != self.source_hash():
            return f"{self.json} was compiled from other sources than these: run `make p4`"
        if shutil.which(COMPILER):
            with tempfile.TemporaryDirectory() as folder:
                json_file, p4info = self.compile_into(Path(folder))
                for made, kept in ((json_file, self.json), (p4info, self.p4info)):
                    if made.read_bytes() != kept.read_bytes():
                        return f"{kept} differs from what {COMPILER} makes of these sources: run `make p4`"
        return None


def without_source_info(node: Any) -> Any:
    """The compiler's JSON without file names and line numbers, which say nothing to a switch."""
    if isinstance(node, dict):
        return {key: without_source_info(value) for key, value in node.items() if key != "source_info"}
    if isinstance(node, list):
        return [without_source_info(value) for value in node]
    return node


def main() -> None:
    """Entry point."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="compare instead of compiling")
    parser.add_argument("--plain", metavar="FOLDER", type=Path, help="compile inca.p4 into this folder without fuse.py")
    arguments = parser.parse_args()
    baselines = HERE.parent / "bench" / "baseline"
    # The plain baseline is compiled as p4c compiles by default, the tuned one as inca is.
    programs = [
        Program(HERE / "inca.p4", HERE / "compiled", NO_COPY_PROPAGATION),
        Program(baselines / "per_element" / "per_element.p4", baselines / "per_element" / "compiled", [], fused=False),
        Program(baselines / "tuned" / "tuned.p4", baselines / "tuned" / "compiled", NO_COPY_PROPAGATION),
    ]
    if arguments.plain:
        Program(HERE / "inca.p4", arguments.plain.resolve(), NO_COPY_PROPAGATION, fused=False).build()
        return
    if not arguments.check:
        if not shutil.which(COMPILER):
            sys.exit(
                f"{COMPILER} not found on PATH: install p4c to rebuild; p4/compiled/ is committed and works without it"
            )
        for program in programs:
            program.build()
        return
    problems = [problem for program in programs if (problem := program.check())]
    for problem in problems:
        print(problem, file=sys.stderr)
    if problems:
        sys.exit(1)
    compared = "compiled again and compared" if shutil.which(COMPILER) else f"hashes compared ({COMPILER} not found)"
    print(f"compiled programs are fresh: {compared}")


if __name__ == "__main__":
    main()
