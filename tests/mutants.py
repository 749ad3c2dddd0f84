#!/usr/bin/env python3
"""Do the tests notice? Breaks one rule of the P4 program at a time and runs the suites against it.

    tests/mutants.py           every mutant (needs p4c-bm2-ss; some minutes)
    tests/mutants.py RANGE     those whose name contains RANGE

A mutant that every suite passes is a rule that no test holds. Exit code 1 if there is one.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
P4 = ROOT / "p4"
FLAGS = ["--std", "p4-16", "--arch", "v1model", "--excludeMidendPasses", "P4::LocalCopyPropagation"]
SUITES = ("tree_cases", "golden_bmv2", "diff_model", "tree_errors", "tree_loss", "tree_exact")
# Seconds a suite may take; a mutant may make the hosts repeat for long.
LIMIT = 180


@dataclass(frozen=True)
class Mutant:
    """One rule and what it is replaced by; the text must occur once in the file."""

    name: str
    file: str
    rule: str
    broken: str


MUTANTS = (
    Mutant("slot bound off by one", "slot.p4", "|| hdr.inca.slot >= slots ||", "|| hdr.inca.slot > slots ||"),
    Mutant(
        "older generations pass",
        "slot.p4",
        "(hdr.inca.generation != generation ||",
        "(hdr.inca.generation > generation ||",
    ),
    Mutant("format unchecked", "slot.p4", "|| hdr.inca.format != format ", ""),
    Mutant("room unchecked", "slot.p4", " || hdr.inca.words > words", ""),
    Mutant("version unchecked", "slot.p4", "hdr.inca.version == INCA_VERSION", "hdr.inca.version != 0"),
    Mutant("ip length unchecked", "slot.p4", "hdr.ipv4.total_length == hdr.udp.length + IPV4_BYTES", "true"),
    Mutant(
        "frame length unchecked",
        "slot.p4",
        "standard_metadata.packet_length == (bit<32>)hdr.ipv4.total_length + ETHERNET_BYTES",
        "true",
    ),
    Mutant(
        "previous result is not replayed",
        "slot.p4",
        "|| (!IS_DONE && hdr.inca.sequence + 1 == OPERATION_SEQUENCE)",
        "",
    ),
    Mutant("tag unchecked", "slot.p4", "hdr.inca.tag != OPERATION_TAG", "false"),
    Mutant("contributions of a result unchecked", "slot.p4", " && hdr.inca.contributions == world", ""),
    Mutant(
        "a host may count for several",
        "slot.p4",
        "#define IS_SINGLE_host   (hdr.inca.contributions == 1)",
        "#define IS_SINGLE_host   (hdr.inca.contributions != 0)",
    ),
    Mutant("resends are not limited", "slot.p4", "- meta.scratch < resend_interval", "- meta.scratch < 0"),
    Mutant(
        "a packet from another operation is the usual case",
        "slot.p4",
        "++ hdr.inca.tag ++ hdr.inca.words ++ hdr.inca.flags \\\n                && ",
        "++ OPERATION_TAG ++ hdr.inca.words ++ hdr.inca.flags \\\n                && ",
    ),
    Mutant(
        "range off by one",
        "reduction.p4",
        "meta.exp_max - meta.exp_min > meta.guard",
        "meta.exp_max - meta.exp_min > meta.guard + 1",
    ),
    Mutant("mismatch keeps a tag", "reduction.p4", "hdr.inca.tag = 0;", "hdr.inca.tag = OPERATION_TAG;"),
    Mutant("unknown flags pass", "slot.p4", "hdr.inca.flags & ~FLAGS_OF_SENDERS != 0 || ", ""),
    Mutant(
        "result of any plane",
        "reduction.p4",
        "        hdr.inca.plane = PLANE_BOTH;\n        hdr.inca.bias = 0;\n",
        "        hdr.inca.bias = 0;\n",
    ),
    Mutant(
        "ties go down",
        "round.p4",
        "#define ROUNDED(word) (((T(word) + offset + ((T(word) >> shift) & ones)) >> shift) & low)",
        "#define ROUNDED(word) (((T(word) + offset) >> shift) & low)",
    ),
    Mutant("result exponent ignores the shift", "round.p4", "- meta.guard + (bit<16>)shift", "- meta.guard"),
    Mutant(
        "sum keeps the last sender's time to live",
        "reduction.p4",
        "        hdr.ipv4.ttl                  = RESULT_TTL;\n",
        "",
    ),
    Mutant("a host may speak for a switch", "forwarding.p4", "if (!link.apply().hit)", "if (false)"),
    Mutant("one plane goes up twice", "egress.p4", "accumulator_high.read(", "accumulator_low.read("),
    Mutant("forwarding forgets the carry", "forwarding.p4", "hdr.ipv4.checksum < 0x0100", "hdr.ipv4.checksum < 0"),
)


def main() -> int:
    """Runs the mutants asked for."""
    wanted = sys.argv[1] if len(sys.argv) > 1 else ""
    if shutil.which("p4c-bm2-ss") is None:
        print("skipped: p4c-bm2-ss not found")
        return 0
    programs = build()
    survivors = 0
    for mutant in MUTANTS:
        if wanted.lower() in mutant.name.lower():
            noticed = run(mutant, programs)
            print(f"{mutant.name:<45} {f'noticed by {noticed}' if noticed else 'SURVIVED'}", flush=True)
            survivors += noticed is None
    return 1 if survivors else 0


def build() -> dict[str, Path]:
    """The suites' programs by name."""
    command = ["cargo", "test", "-p", "inca-tests", "--no-run", "--message-format=json"]
    output = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout
    messages = [json.loads(line) for line in output.splitlines()]
    return {
        message["target"]["name"]: Path(message["executable"])
        for message in messages
        if message.get("reason") == "compiler-artifact" and message.get("executable")
    }


def run(mutant: Mutant, programs: dict[str, Path]) -> str | None:
    """The first suite that notices the mutant."""
    with tempfile.TemporaryDirectory(prefix="inca-mutant-") as name:
        folder = Path(name)
        for source in P4.glob("*.p4"):
            shutil.copy(source, folder)
        text = (folder / mutant.file).read_text()
        if text.count(mutant.rule) != 1:
            raise SystemExit(
                f"{mutant.name}: {mutant.file} has its rule {text.count(mutant.rule)} times, expected once"
            )
        (folder / mutant.file).write_text(text.replace(mutant.rule, mutant.broken))
        outputs = ["--p4runtime-files", "inca.p4info.txtpb", "-o", "inca.json", "inca.p4"]
        subprocess.run(["p4c-bm2-ss", *FLAGS, *outputs], cwd=folder, check=True, capture_output=True)
        environment = {**os.environ, "INCA_COMPILED": name, "RUST_BACKTRACE": "0"}
        for suite in SUITES:
            # BMv2 would run the same broken program: one switch is enough.
            command = [str(programs[suite]), "--skip", "bmv2_follows"]
            try:
                ended = subprocess.run(command, cwd=ROOT / "tests", env=environment, capture_output=True, timeout=LIMIT)
            except subprocess.TimeoutExpired:
                return f"{suite} (did not end)"
            if ended.returncode != 0:
                return suite
    return None


if __name__ == "__main__":
    sys.exit(main())
