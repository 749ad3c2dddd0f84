"""p4runtime-shell reads what a controller has installed, and finds what the controller's API says.

usage: controller_shell_session.py SWITCH DEVICE_ID API JOB

It joins the election below the controller: it may look and nothing else. Any difference ends it with an exception.
"""

from __future__ import annotations

import sys

import grpc
import p4runtime_sh.shell as sh
from controller_says import Installed, installed
from p4runtime_sh.p4runtime import P4RuntimeWriteException


def number(value: bytes) -> int:
    return int.from_bytes(value, "big")


def exact(entry: sh.TableEntry, field: str) -> int:
    return number(entry.match._mk[field].exact.value)


def parameter(action: sh.Action, name: str) -> int:
    return number(action._param_values[name].value)


def compare(says: Installed) -> None:
    members = list(sh.TableEntry("membership").read())
    fields = ("tree_id", "ingress_port", "member")
    assert {tuple(exact(entry, field) for field in fields) for entry in members} == says.members
    assert {parameter(entry.action, "generation") for entry in members} == {says.generation}
    assert {parameter(entry.action, "slots") for entry in members} == {says.slots}
    assert {exact(entry, "tree_id") for entry in sh.TableEntry("tree").read()} == says.trees
    routes = {}
    for entry in sh.TableEntry("ipv4_lpm").read():
        prefix = entry.match._mk["dst_addr"].lpm
        (forward,) = entry.oneshot.actions
        routes[number(prefix.value), prefix.prefix_len] = parameter(forward.action, "port")
    assert routes == says.routes, routes
    groups = [sorted(r.egress_port for r in group.replicas) for group in sh.MulticastGroupEntry().read()]
    assert groups == says.groups, groups
    print(f"{len(members)} members, {len(routes)} routes, {len(groups)} multicast groups: as the controller says")


def refuse_writes() -> None:
    """The controller is in charge, nobody else."""
    group = sh.MulticastGroupEntry(77)
    group.add(1, 1)
    refusal = ""
    try:
        group.insert()
    except (P4RuntimeWriteException, grpc.RpcError) as error:
        refusal = str(error)
    assert "PERMISSION_DENIED" in refusal, f"a client below the controller must not write: {refusal}"
    print("writes are refused")


def main() -> int:
    if len(sys.argv) != 5:
        print(__doc__, file=sys.stderr)
        return 2
    switch, device_id, api, job = sys.argv[1:]
    says = installed(api, job)
    sh.setup(device_id=int(device_id), grpc_addr=switch, election_id=(0, 1), verbose=False)
    try:
        compare(says)
        refuse_writes()
    finally:
        sh.teardown()
    print("session complete")
    return 0


if __name__ == "__main__":
    sys.exit(main())
