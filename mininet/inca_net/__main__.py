"""inca-net: emulated networks for inca.

inca-net up     --topology tree2 --workers 3,1          a network and Mininet's command line
inca-net run    --workers 2,2 -- COMMAND ...            a command on every host, {rank} and so on filled in
inca-net perf   --workers 5,1,2 --loss 0.05             inca-agent perf on every host
inca-net check  --workers 2,2                           ping and TCP between hosts while a job runs
inca-net loss   --losses 0,0.1                          what loss on every link costs, on every switch there is
inca-net recovery --workers 2,1                         what failures cost, on every switch there is
inca-net demo                                           trains on eight workers, sweeps sizes, counts bytes
inca-net train-formats                                  trains over every number format, plots the curves
inca-net collectives                                    bytes on host links of each collective, and the least
inca-net train-ddp --rate 50                            PyTorch's DDP with gradients by inca, then by gloo
inca-net train-parallel --workers 4,4                   sharded, and data, tensor and pipeline parallel training
inca-net jobs   --jobs 8                                jobs at once over the same switches: right, and evenly shared
inca-net experiment FILE.yaml                           networks, jobs, sizes, repetitions as a YAML file says
inca-net soak --loss 0.01 --seconds 600                 sums without a pause: no wrong element, no memory that grows
inca-net bench                                          everything that is promised, side by side, and whether it holds
inca-net doctor                                         what this machine can and can't do
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from . import doctor, topology
from .isolate import EXIT_BROKEN_PIPE, EXIT_LOCKED, IsolationError, LockedError, isolated, reader_is_gone
from .topology import Network, TopologyError

# Mininet is imported only where a network is built: the rest, doctor above all, works without it.
if TYPE_CHECKING:
    from .emulation import Emulation

EXIT_USAGE = 2
# As shells count it: 128 and the signal's number.
EXIT_INTERRUPTED = 130
DEFAULT_TIME_LIMIT = 600.0
MAX_SLOTS = 4096
# Of a soak: bytes of a tensor whose first element is the wish to end; formats whose lanes hold the sums of its whole
# numbers; time beyond the sums themselves to start, and for the last ones under loss.
SOAK_LEAST_BYTES = 8
SOAK_FORMATS = ("bfp16", "bfp32", "exact")
# What a step over gloo shall be compared at.
DDP_RATE_MBIT = 50.0
SOAK_MARGIN_SECONDS = 300.0


def at_least_one(text: str) -> int:
    """An argument that counts something."""
    if not (text.isdecimal() and int(text) > 0):
        raise argparse.ArgumentTypeError(f"{text!r} is no number of at least 1")
    return int(text)


def slot_count(text: str) -> int:
    """An argument that counts slots of a tree."""
    if not (text.isdecimal() and 1 <= int(text) <= MAX_SLOTS):
        raise argparse.ArgumentTypeError(f"{text!r}: 1 to {MAX_SLOTS} slots are valid")
    return int(text)


def soak_bytes(text: str) -> int:
    """An argument that is the size of a soak's tensor."""
    if not (text.isdecimal() and int(text) >= SOAK_LEAST_BYTES and int(text) % 4 == 0):
        raise argparse.ArgumentTypeError(
            f"{text!r}: bytes of whole elements of 4, at least {SOAK_LEAST_BYTES}, are valid: one says when to end"
        )
    return int(text)


def seconds(text: str) -> float:
    """An argument that is a time."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0.0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is no time above 0 seconds")
    return value


def main(argv: Sequence[str] | None = None) -> int:
    """Parses the arguments and runs the command."""
    # An ordinary user's PATH has no folder for administration, where nft and tc are.
    os.environ["PATH"] = os.environ.get("PATH", os.defpath) + ":/usr/local/sbin:/usr/sbin:/sbin"
    options = parser()
    arguments, rest = options.parse_known_args(argv)
    if arguments.command == "pytest":
        arguments.pytest_args = rest
    elif rest:
        options.error(f"unknown arguments: {' '.join(rest)}")
    try:
        code: int = arguments.run(arguments)
        sys.stdout.flush()
        return code
    except TopologyError as error:
        print(f"inca-net: {error}", file=sys.stderr)
        return EXIT_USAGE
    except LockedError as error:
        print(f"inca-net: {error}", file=sys.stderr)
        return EXIT_LOCKED
    except IsolationError as error:
        print(f"inca-net: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        if isinstance(error, BrokenPipeError) and reader_is_gone():
            # What is still buffered has to go somewhere when the interpreter ends.
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            return EXIT_BROKEN_PIPE
        # A folder that can't be made or written, a full disk: what and where say it all.
        print(f"inca-net: {error.filename or 'system'}: {error.strerror or error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("inca-net: interrupted", file=sys.stderr)
        return EXIT_INTERRUPTED


def parser() -> argparse.ArgumentParser:
    """All commands and options."""
    top = argparse.ArgumentParser(
        prog="inca-net", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")

    up = add_network_command(commands, "up", "a network and Mininet's command line", run_up)
    up.add_argument("--hold", type=seconds, metavar="SECONDS", help="no command line, keep it up so long")

    run = add_network_command(commands, "run", "a command on every host", run_run)
    run.add_argument("argv", nargs="+", metavar="ARG", help="after --: the command, {rank} and so on are filled in")

    perf = add_network_command(commands, "perf", "inca-agent perf on every host", run_perf)
    perf.add_argument("perf_args", nargs="*", metavar="ARG", help="after --: options for inca-agent perf")

    check = add_network_command(commands, "check", "ping and TCP between hosts while a job runs", run_check)
    check.add_argument("--bytes", type=at_least_one, default=1_000_000, help="per TCP transfer (default: 1000000)")

    loss = add_network_command(commands, "loss", "what loss on every link costs, on every switch there is", run_loss)
    loss.add_argument("--losses", default="0,0.1", help="probabilities, every link, each direction (default: 0,0.1)")
    loss.add_argument("--bytes", default="256K", help="of an operation (default: 256K)")
    loss.add_argument("--iterations", type=at_least_one, default=3, help="operations each (default: 3)")
    loss.add_argument("--report", type=Path, help="where the figures go (default: target/reports/bench-loss.json)")
    loss.add_argument("--json", action="store_true", help="print the report as JSON instead of a table")

    recovery = add_network_command(commands, "recovery", "what failures cost, on every switch there is", run_recovery)
    recovery.add_argument(
        "--bytes", type=at_least_one, default=24 << 20, help="of the sum that is disturbed (default: 24 MiB)"
    )
    recovery.add_argument(
        "--report", type=Path, help="where the figures go (default: target/reports/bench-recovery.json)"
    )
    recovery.add_argument("--json", action="store_true", help="print the report as JSON instead of a table")

    demo = add_network_command(commands, "demo", "trains on eight workers, sweeps sizes, counts bytes", run_demo)
    demo.add_argument("--steps", type=at_least_one, default=60, help="training steps (default: 60)")

    each = add_network_command(commands, "collectives", "bytes on host links of each collective", run_collectives)
    each.add_argument("--bytes", type=at_least_one, default=1 << 18, help="of a tensor (default: 262144)")
    each.add_argument("--json", action="store_true", help="print the report as JSON")

    ddp = add_network_command(commands, "train-ddp", "PyTorch's DDP, gradients by inca and by gloo", run_train_ddp)
    ddp.add_argument("--steps", type=at_least_one, default=60, help="training steps (default: 60)")
    ddp.add_argument("--rounds", type=at_least_one, default=3, help="trainings by each, in turns (default: 3)")
    ddp.add_argument("--json", action="store_true", help="print the report as JSON")

    parallel = add_network_command(
        commands, "train-parallel", "sharded, and 2x2x2 parallel training by PyTorch, on 8 workers", run_train_parallel
    )
    parallel.add_argument("--steps", type=at_least_one, default=5, help="training steps of each (default: 5)")
    parallel.add_argument("--json", action="store_true", help="print the report as JSON")

    formats = add_network_command(commands, "train-formats", "trains over every number format", run_train_formats)
    formats.add_argument("--steps", type=at_least_one, default=60, help="training steps (default: 60)")
    formats.add_argument("--json", action="store_true", help="print the report as JSON")

    soak = add_network_command(
        commands,
        "soak",
        "sums without a pause, with loss: no wrong element, no growth",
        run_soak,
        f"everything is ended after so long, but not before --seconds and {SOAK_MARGIN_SECONDS:.0f} more (default)",
    )
    soak.add_argument(
        "--seconds",
        type=seconds,
        default=600.0,
        help="how long (default: 600, the least that make bench counts; shorter ones write soak-trial.json)",
    )
    soak.add_argument(
        "--bytes", type=soak_bytes, default=1 << 18, help=f"of a tensor, at least {SOAK_LEAST_BYTES} (default: 262144)"
    )
    soak.add_argument("--format", choices=SOAK_FORMATS, default=SOAK_FORMATS[0], help="number format (default: bfp16)")
    soak.add_argument("--json", action="store_true", help="print the report as JSON")

    several = add_network_command(
        commands, "jobs", "jobs at once over the same switches: right, and evenly shared", run_jobs
    )
    several.add_argument("--jobs", type=at_least_one, default=8, help="how many (default: 8, each on every leaf)")
    several.add_argument("--seconds", type=seconds, default=20.0, help="how long (default: 20)")
    several.add_argument(
        "--bytes", type=soak_bytes, default=1 << 16, help=f"of a tensor, at least {SOAK_LEAST_BYTES} (default: 65536)"
    )
    several.add_argument("--json", action="store_true", help="print the report as JSON")

    trial = commands.add_parser("experiment", help="networks, jobs, sizes and repetitions as a YAML file says")
    trial.add_argument("file", type=Path, metavar="FILE.yaml", help="see mininet/inca_net/experiment_file.py")
    trial.add_argument("--results", type=Path, help="folder (default: target/experiments/NAME)")
    before = trial.add_mutually_exclusive_group()
    before.add_argument(
        "--resume",
        action="store_true",
        help="go on where the run before ended; failed and skipped cells are tried again",
    )
    before.add_argument("--again", action="store_true", help="begin anew where there are results already")
    trial.add_argument("--check", action="store_true", help="only read the file and list what it would run")
    trial.add_argument(
        "--json", action="store_true", help="print rows, failed and skipped cells as JSON, progress on stderr"
    )
    trial.set_defaults(run=run_experiment)

    whole = commands.add_parser("bench", help="everything that is promised, side by side, and whether it holds")
    whole.add_argument("--quick", action="store_true", help="a few minutes' worth")
    whole.add_argument(
        "--only", help="parts, separated by commas: dataplane, codec, an experiment's name (default: all)"
    )
    whole.add_argument("--results", type=Path, help="folder (default: bench/results)")
    whole.add_argument("--resume", action="store_true", help="go on where the run before was interrupted")
    whole.add_argument("--json", action="store_true", help="print the results as JSON, progress on stderr")
    whole.set_defaults(run=run_bench)

    tests = commands.add_parser("pytest", help="pytest inside fresh namespaces (other arguments are pytest's)")
    tests.add_argument("--name", default="pytest", help="name of the lock (default: pytest)")
    tests.add_argument("--time-limit", type=seconds, default=DEFAULT_TIME_LIMIT)
    tests.set_defaults(run=run_pytest)

    examine = commands.add_parser("doctor", help="what this machine can and can't do")
    examine.add_argument("--can-emulate", action="store_true", help="only say whether emulation works at all")
    examine.add_argument("--interface", action="append", default=[], help="examine this data-plane interface instead")
    examine.set_defaults(run=lambda arguments: doctor.run(arguments.can_emulate, arguments.interface))
    return top


def add_network_command(
    commands: argparse._SubParsersAction[argparse.ArgumentParser],
    name: str,
    text: str,
    function: Callable[[argparse.Namespace], int],
    limit: str = f"everything is ended after so long (default: {DEFAULT_TIME_LIMIT:.0f})",
) -> argparse.ArgumentParser:
    """A command that brings up a network, with the options for it."""
    command = commands.add_parser(name, help=text)
    group = command.add_argument_group("network")
    group.add_argument("--file", type=Path, help="YAML description; the options below then may not be given")
    group.add_argument("--topology", choices=tuple(topology.SHAPES), help="default: tree2")
    group.add_argument("--workers", help="workers per leaf, such as 5,1,2 (default: 2,2)")
    group.add_argument("--spines", type=at_least_one, help="spines of a tree2 (default: 1)")
    group.add_argument("--mtu", type=int, help="of the data plane: 1500 (default) up to 9500 (jumbo)")
    group.add_argument("--loss", type=float, help="probability that a packet is lost, every link, each direction")
    group.add_argument("--rate", type=float, metavar="MBIT", help="rate of every link in Mbit/s (default: unlimited)")
    run = command.add_argument_group("run")
    run.add_argument(
        "--switch",
        choices=("auto", "bmv2", "embedded"),
        default=os.environ.get("SWITCH", "auto"),
        help="default: the environment's SWITCH, else BMv2 if it is on PATH",
    )
    run.add_argument(
        "--loss-by",
        choices=("kernel", "switch"),
        default="kernel",
        help="who loses packets: nftables (default) or the embedded switch, seeded",
    )
    run.add_argument("--seed", type=int, default=1, help="of the embedded switch's loss")
    run.add_argument("--name", help="of the run: lock and folder (default: the command or the file's name)")
    run.add_argument("--run-dir", type=Path, help="for logs and outputs (default: target/net/NAME)")
    run.add_argument(
        "--time-limit",
        type=seconds,
        default=DEFAULT_TIME_LIMIT,
        metavar="SECONDS",
        help=limit,
    )
    run.add_argument(
        "--slots", type=slot_count, metavar="N", help="slots of a tree: chunks in flight per rank (default: 16)"
    )
    run.add_argument("--root-hosts", action="store_true", help="run commands on hosts as root instead of nobody")
    command.set_defaults(run=function)
    return command


def requested_network(arguments: argparse.Namespace, default_workers: str = "2,2") -> Network:
    """The network that the options or the file describe."""
    if arguments.file is not None:
        for option in ("topology", "workers", "spines", "mtu", "loss", "rate"):
            if getattr(arguments, option) is not None:
                raise TopologyError(f"--{option} together with --file: set it in the file")
        # PyYAML is needed for files alone.
        from .topology_file import read_network

        return read_network(arguments.file)
    return topology.shape(
        arguments.topology or "tree2",
        arguments.name or arguments.command,
        topology.parse_workers(default_workers if arguments.workers is None else arguments.workers),
        arguments.spines or 1,
        mtu=arguments.mtu,
        loss=arguments.loss,
        rate_mbit=arguments.rate,
    )


def chosen_switch(arguments: argparse.Namespace) -> str:
    """`auto` resolved."""
    if arguments.switch != "auto":
        return str(arguments.switch)
    return "bmv2" if shutil.which("simple_switch_grpc") else "embedded"


def emulate(
    arguments: argparse.Namespace,
    network: Network,
    function: Callable[[Emulation], int],
    time_limit: float | None = None,
) -> int:
    """Runs `function` on the network, isolated; every failure ends in a message and an exit code."""
    problem = doctor.why_not()
    if problem:
        print(f"inca-net: {problem}", file=sys.stderr)
        return 1
    from .emulation import Emulation, Settings
    from .nodes import ROOT, MissingProgramError, programs_path
    from .processes import ComponentError, JobError

    name = arguments.name or network.name
    settings = Settings(
        switch=chosen_switch(arguments),
        run_dir=arguments.run_dir or ROOT / "target" / "net" / name,
        loss_by=arguments.loss_by,
        seed=arguments.seed,
        privileged_hosts=arguments.root_hosts,
        inventory={} if arguments.slots is None else {"trees": {"slots_per_tree": arguments.slots}},
    )
    try:
        settings.check()
    except (ValueError, MissingProgramError) as error:
        print(f"inca-net: {error}", file=sys.stderr)
        return EXIT_USAGE

    # The hosts' shells and Mininet's command line inherit it.
    os.environ["PATH"] = programs_path()

    def inside() -> int:
        started = time.monotonic()
        try:
            print(f"network {network.name}: {network.describe()}; switch: {settings.switch}", flush=True)
            with Emulation(network, settings) as emulation:
                print(f"ready after {time.monotonic() - started:.1f} s; logs in {settings.run_dir}", flush=True)
                return function(emulation)
        except (ComponentError, JobError) as error:
            print(f"inca-net: {error}", file=sys.stderr)
            return 1

    settings.run_dir.mkdir(parents=True, exist_ok=True)
    return isolated(name, inside, arguments.time_limit if time_limit is None else time_limit)


def run_up(arguments: argparse.Namespace) -> int:
    """up: a command line, or nothing for a while."""

    def function(emulation: Emulation) -> int:
        if arguments.hold is not None:
            deadline = time.monotonic() + arguments.hold
            while time.monotonic() < deadline:
                emulation.check_alive()
                time.sleep(0.2)
            return 0
        from mininet.cli import CLI

        print(f"controller: {emulation.controller_url} (from hosts and from here); leave with exit")
        CLI(emulation.net)
        return 0

    interactive = arguments.hold is None and arguments.time_limit == DEFAULT_TIME_LIMIT
    limit = float("inf") if interactive else arguments.time_limit
    return emulate(arguments, requested_network(arguments), function, limit)


def run_run(arguments: argparse.Namespace) -> int:
    """run: the user's command on every host; fails if one fails."""

    def function(emulation: Emulation) -> int:
        argv: list[str] = arguments.argv
        jobs = emulation.start_workers(lambda _worker: argv, "run")
        outcomes = emulation.wait(jobs, arguments.time_limit)
        for outcome in outcomes:
            for line in outcome.text().splitlines():
                print(f"{outcome.host}: {line}")
            if not outcome.ok:
                print(outcome.report(), file=sys.stderr)
        return 0 if all(outcome.ok for outcome in outcomes) else 1

    return emulate(arguments, requested_network(arguments), function)


def run_perf(arguments: argparse.Namespace) -> int:
    """perf: rank 0's table, and the exit code of all."""
    from .jobs import perf_command

    def function(emulation: Emulation) -> int:
        jobs = emulation.start_workers(lambda w: perf_command("perf", arguments.perf_args, json=False), "perf")
        outcomes = emulation.wait(jobs, arguments.time_limit)
        print(outcomes[0].text(), end="")
        for outcome in outcomes:
            if not outcome.ok:
                print(outcome.report(), file=sys.stderr)
        return 0 if all(outcome.ok for outcome in outcomes) else 1

    return emulate(arguments, requested_network(arguments), function)


def run_check(arguments: argparse.Namespace) -> int:
    """check: ordinary traffic beside a job."""
    from .jobs import check_traffic

    return emulate(arguments, requested_network(arguments), lambda emulation: check_traffic(emulation, arguments.bytes))


def run_loss(arguments: argparse.Namespace) -> int:
    """loss: see loss.py; several networks, one after the other."""
    if arguments.loss is not None:
        raise TopologyError("--loss: loss takes --losses, such as 0,0.1")
    network = requested_network(arguments, "2,1")
    problem = doctor.why_not()
    if problem:
        print(f"inca-net: {problem}", file=sys.stderr)
        return 1
    from . import loss
    from .emulation import Settings
    from .nodes import ROOT, MissingProgramError
    from .processes import ComponentError, JobError

    loss.parse_losses(arguments.losses)
    run_dir = arguments.run_dir or ROOT / "target" / "net" / (arguments.name or network.name)
    inventory = {} if arguments.slots is None else {"trees": {"slots_per_tree": arguments.slots}}
    settings = [Settings(switch=kind, run_dir=run_dir, inventory=inventory) for kind in loss.switches(arguments.switch)]
    try:
        for each in settings:
            each.check()
    except (ValueError, MissingProgramError) as error:
        print(f"inca-net: {error}", file=sys.stderr)
        return EXIT_USAGE

    def inside() -> int:
        try:
            return loss.run(network, settings, arguments)
        except (ComponentError, JobError) as error:
            print(f"inca-net: {error}", file=sys.stderr)
            return 1

    return isolated(arguments.name or network.name, inside, arguments.time_limit)


def run_recovery(arguments: argparse.Namespace) -> int:
    """recovery: see recovery.py; a network for every event."""
    for option in ("file", "topology", "spines", "mtu", "loss", "rate"):
        if getattr(arguments, option) is not None:
            raise TopologyError(f"--{option}: recovery has networks of its own, only --workers is yours")
    problem = doctor.why_not()
    if problem:
        print(f"inca-net: {problem}", file=sys.stderr)
        return 1
    from . import loss, recovery
    from .emulation import Settings
    from .nodes import ROOT, MissingProgramError
    from .processes import ComponentError, JobError

    workers = topology.parse_workers("2,1" if arguments.workers is None else arguments.workers)
    run_dir = arguments.run_dir or ROOT / "target" / "net" / (arguments.name or "recovery")
    settings = [Settings(switch=kind, run_dir=run_dir) for kind in loss.switches(arguments.switch)]
    try:
        for each in settings:
            each.check()
    except (ValueError, MissingProgramError) as error:
        print(f"inca-net: {error}", file=sys.stderr)
        return EXIT_USAGE

    def inside() -> int:
        try:
            return recovery.run(settings, workers, arguments)
        except (ComponentError, JobError) as error:
            print(f"inca-net: {error}", file=sys.stderr)
            return 1

    return isolated(arguments.name or "recovery", inside, arguments.time_limit)


def run_demo(arguments: argparse.Namespace) -> int:
    """demo: see demo.py."""
    from .demo import run

    return emulate(arguments, requested_network(arguments, "4,4"), lambda emulation: run(emulation, arguments.steps))


def run_train_formats(arguments: argparse.Namespace) -> int:
    """train-formats: see train_formats.py."""
    from .train_formats import run

    network = requested_network(arguments, "2,2")
    return emulate(arguments, network, lambda emulation: run(emulation, arguments.steps, arguments.json))


def run_collectives(arguments: argparse.Namespace) -> int:
    """collectives: see collectives.py."""
    from .collectives import run

    network = requested_network(arguments, "2,2")
    return emulate(arguments, network, lambda emulation: run(emulation, arguments.bytes, arguments.json))


def run_train_ddp(arguments: argparse.Namespace) -> int:
    """train-ddp: see ddp.py."""
    from .ddp import run, torch_missing

    if reason := torch_missing():
        print(f"skipped: {reason} (apt-get install python3-torch)")
        return 0
    if arguments.file is None and arguments.rate is None:
        arguments.rate = DDP_RATE_MBIT
    network = requested_network(arguments, "4")
    return emulate(
        arguments, network, lambda emulation: run(emulation, arguments.steps, arguments.rounds, arguments.json)
    )


def run_train_parallel(arguments: argparse.Namespace) -> int:
    """train-parallel: see parallel.py."""
    from .ddp import torch_missing
    from .parallel import run

    if reason := torch_missing():
        print(f"skipped: {reason} (apt-get install python3-torch)")
        return 0
    network = requested_network(arguments, "4,4")
    return emulate(arguments, network, lambda emulation: run(emulation, arguments.steps, arguments.json))


def run_soak(arguments: argparse.Namespace) -> int:
    """soak: see soak.py."""
    from .soak import run

    if arguments.loss is None:
        arguments.loss = 0.01
    limit = max(arguments.time_limit, arguments.seconds + SOAK_MARGIN_SECONDS)
    return emulate(
        arguments,
        requested_network(arguments, "4,4"),
        lambda emulation: run(emulation, arguments.seconds, arguments.bytes, arguments.format, arguments.json),
        limit,
    )


def run_jobs(arguments: argparse.Namespace) -> int:
    """jobs: see sharing.py."""
    from .sharing import run

    return emulate(
        arguments,
        requested_network(arguments, f"{arguments.jobs},{arguments.jobs}"),
        lambda emulation: run(emulation, arguments.jobs, arguments.seconds, arguments.bytes, arguments.json),
        max(arguments.time_limit, arguments.seconds + SOAK_MARGIN_SECONDS),
    )


def run_experiment(arguments: argparse.Namespace) -> int:
    """experiment: see experiment.py."""
    from .experiment_file import read_experiment

    experiment = read_experiment(arguments.file)
    if arguments.check:
        print("\n".join(cell.key for cell in experiment.cells()))
        return 0
    problem = doctor.why_not()
    if problem:
        print(f"inca-net: {problem}", file=sys.stderr)
        return 1
    from .experiment import run, to_stderr, to_stdout
    from .nodes import ROOT, programs_path
    from .results import Results

    results = Results(arguments.results or ROOT / "target" / "experiments" / experiment.name, experiment)
    os.environ["PATH"] = programs_path()

    def inside() -> int:
        # Only now, with the lock, is anything in the folder ours to change.
        try:
            results.open(arguments.resume, arguments.again)
        except TopologyError as error:
            print(f"inca-net: {error}", file=sys.stderr)
            return EXIT_USAGE
        except OSError as error:
            print(f"inca-net: {error.filename or 'system'}: {error.strerror or error}", file=sys.stderr)
            return 1
        code = run(experiment, results, to_stderr if arguments.json else to_stdout)
        if arguments.json:
            print(json.dumps(results.json()))
        return code

    remedy = f"give this experiment another name ('name:' in {arguments.file})"
    code = isolated(f"experiment-{experiment.name}", inside, remedy=remedy)
    if code == EXIT_INTERRUPTED:
        print("inca-net: interrupted; the same command with --resume goes on", file=sys.stderr)
    return code


def run_bench(arguments: argparse.Namespace) -> int:
    """bench: see bench.py."""
    from . import bench

    only = [] if arguments.only is None else bench.parse_only(arguments.only, arguments.quick)
    problem = doctor.why_not()
    if problem:
        print(f"inca-net: {problem}", file=sys.stderr)
        return 1
    results = arguments.results or bench.RESULTS
    return bench.run(arguments.quick, only, results, arguments.resume, arguments.json)


def run_pytest(arguments: argparse.Namespace) -> int:
    """pytest: in this process' child, so that tests can build networks."""

    def inside() -> int:
        import pytest

        return int(pytest.main(arguments.pytest_args))

    return isolated(arguments.name, inside, arguments.time_limit)


if __name__ == "__main__":
    sys.exit(main())
