"""finsy reads what a controller has installed, and finds what the controller's API says.

usage: controller_finsy_session.py SWITCH DEVICE_ID API JOB

It joins the election below the controller: it may look and nothing else. Any difference ends it with an exception.
"""

from __future__ import annotations

import asyncio
import sys

import finsy as fy
from controller_says import Installed, installed

TIMEOUT_S = 30


async def compare(switch: fy.Switch, says: Installed) -> None:
    members = [entry async for entry in switch.read(fy.P4TableEntry("membership"))]
    keys = {(entry.match["tree_id"], entry.match["ingress_port"], entry.match["member"]) for entry in members}
    assert keys == says.members, keys
    assert {entry.action.args["generation"] for entry in members} == {says.generation}
    assert {entry.action.args["slots"] for entry in members} == {says.slots}
    trees = {entry.match["tree_id"] async for entry in switch.read(fy.P4TableEntry("tree"))}
    assert trees == says.trees, trees
    routes = {}
    async for entry in switch.read(fy.P4TableEntry("ipv4_lpm")):
        ((_, forward),) = entry.action.action_set
        routes[entry.match["dst_addr"]] = forward.args["port"]
    assert routes == says.routes, routes
    groups = [
        sorted(replica.port for replica in group.replicas) async for group in switch.read(fy.P4MulticastGroupEntry())
    ]
    assert groups == says.groups, groups
    print(f"{len(members)} members, {len(routes)} routes, {len(groups)} multicast groups: as the controller says")


async def refuse_writes(switch: fy.Switch) -> None:
    """The controller is in charge, nobody else."""
    assert not switch.is_primary
    code = None
    try:
        await switch.write([+fy.P4MulticastGroupEntry(77, replicas=[(1, 1)])])
    except fy.P4ClientError as error:
        code = error.code
    assert code == fy.GRPCStatusCode.PERMISSION_DENIED, f"a client below the controller must not write: {code}"
    print("writes are refused")


async def session(address: str, device_id: int, says: Installed) -> None:
    options = fy.SwitchOptions(device_id=device_id, initial_election_id=1)
    async with fy.Switch("s1", address, options) as switch:
        await compare(switch, says)
        await refuse_writes(switch)
    print("session complete")


def main() -> int:
    if len(sys.argv) != 5:
        print(__doc__, file=sys.stderr)
        return 2
    switch, device_id, api, job = sys.argv[1:]
    says = installed(api, job)
    asyncio.run(asyncio.wait_for(session(switch, int(device_id), says), TIMEOUT_S))
    return 0


if __name__ == "__main__":
    sys.exit(main())
