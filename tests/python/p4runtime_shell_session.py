"""A session of p4runtime-shell with a switch: pipeline, entries, groups, counters, packets, errors.

usage: p4runtime_shell_session.py ADDRESS DEVICE_ID P4INFO JSON

The program is tests/fixtures/p4runtime/objects.p4. Prints what was done; any difference ends it with an exception.
"""

from __future__ import annotations

import sys

import p4runtime_sh.shell as sh
from p4runtime_sh.p4runtime import P4RuntimeWriteException

WORD_KIND = 0x88B5
DESTINATION = "02:00:00:00:00:09"
PIPELINE_PORT = "510"
PACKET_IN_TIMEOUT_S = 5
NOT_FOUND, ALREADY_EXISTS = 5, 6


def code_of(write: object) -> int:
    """Return the canonical code of the one update that `write` fails with."""
    try:
        write()  # type: ignore[operator]
    except P4RuntimeWriteException as error:
        ((_, detail),) = error.errors
        return int(detail.canonical_code)
    raise AssertionError("the write must fail")


def table_entries() -> None:
    value = int.from_bytes(bytes(range(256)), "big")
    entry = sh.TableEntry("ternary_match")(action="set_word")
    entry.match["port"] = "255"
    entry.match["kind"] = f"{WORD_KIND:#x}&&&0xffff"
    entry.action["value"] = str(value)
    entry.priority = 7
    entry.insert()
    (read,) = list(sh.TableEntry("ternary_match").read())
    assert int.from_bytes(read.action._param_values["value"].value, "big") == value, "2048 bits survive"
    assert read.priority == 7
    assert code_of(entry.insert) == ALREADY_EXISTS

    exact = sh.TableEntry("exact_match")(action="to_controller")
    exact.match["dst"] = DESTINATION
    exact.action["reason"] = "42"
    assert code_of(exact.delete) == NOT_FOUND
    exact.insert()
    exact.action["reason"] = "43"
    exact.modify()
    (read,) = list(sh.TableEntry("exact_match").read())
    assert read.action._param_values["reason"].value == b"\x2b"

    lpm = sh.TableEntry("lpm_match")(action="set_key")
    lpm.match["key"] = "10.0.0.0/8"
    lpm.action["value"] = "1"
    lpm.insert()
    default = sh.TableEntry("lpm_match")(action="set_key", is_default=True)
    default.action["value"] = "5"
    default.modify()
    ranged = sh.TableEntry("range_match")(action="NoAction")
    ranged.match["kind"] = "0x0800..0x08ff"
    ranged.match["port"] = "3"
    ranged.priority = 1
    ranged.insert()
    assert len(list(sh.TableEntry("range_match").read())) == 1
    print("table entries: exact, lpm, ternary with 2048 bits, range, optional, default")


def packets() -> None:
    frame = bytes.fromhex("020000000009") + bytes.fromhex("020000000001") + WORD_KIND.to_bytes(2, "big") + bytes(256)
    packet_in = sh.PacketIn()
    out = sh.PacketOut(frame)
    out.metadata["egress_port"] = PIPELINE_PORT
    out.metadata["replicate"] = "0"
    out.metadata["pad"] = "0"
    out.send()
    (received,) = list(packet_in.sniff(timeout=PACKET_IN_TIMEOUT_S))[:1]
    assert received.packet.payload[14:] == bytes(range(256)), "the entry's parameter is in the packet"
    values = {meta.metadata_id: meta.value for meta in received.packet.metadata}
    assert values == {1: b"\xff", 2: b"\x2b"}, values
    print("packets: out, through the tables, and in again")


def counters() -> None:
    counter = sh.CounterEntry("seen")
    counter.index = 7
    (cell,) = list(counter.read())
    assert cell.packet_count == 1, cell
    assert len(list(sh.CounterEntry("seen").read())) == 8
    counter.packet_count = 100
    counter.modify()
    counter = sh.CounterEntry("seen")
    counter.index = 7
    (cell,) = list(counter.read())
    assert cell.packet_count == 100, cell
    (direct,) = list(sh.DirectCounterEntry("forwarded").read())
    assert direct.packet_count == 1, direct
    print("counters: indirect, direct, wildcard, written")


def meters() -> None:
    meter = sh.MeterEntry("rate")
    meter.index = 3
    meter.cir, meter.cburst, meter.pir, meter.pburst = 10, 2, 20, 4
    meter.modify()
    meter = sh.MeterEntry("rate")
    meter.index = 3
    (cell,) = list(meter.read())
    assert (cell.cir, cell.cburst, cell.pir, cell.pburst) == (10, 2, 20, 4), cell
    assert len(list(sh.MeterEntry("rate").read())) == 8

    # The meter knows its table by its whole name.
    owner = sh.TableEntry("ObjectsIngress.range_match")(action="police")
    owner.match["kind"] = "0x0900..0x09ff"
    owner.priority = 2
    owner.insert()
    direct = sh.DirectMeterEntry("policed")
    direct.table_entry = owner
    direct.cir, direct.cburst, direct.pir, direct.pburst = 1000, 100, 2000, 200
    direct.modify()
    read = sh.DirectMeterEntry("policed")
    read.table_entry = owner
    (found,) = list(read.read())
    assert (found.cir, found.pburst) == (1000, 200), found
    owner.delete()
    print("meters: indirect, direct, wildcard, written")


def replication() -> None:
    group = sh.MulticastGroupEntry(5)
    group.add(1, 1).add(2, 2).add(2, 3)
    group.insert()
    (read,) = list(sh.MulticastGroupEntry().read())
    assert read.group_id == 5
    assert sorted((r.egress_port, r.instance) for r in read.replicas) == [(1, 1), (2, 2), (2, 3)]
    assert code_of(group.insert) != 0
    group.delete()
    assert list(sh.MulticastGroupEntry().read()) == []
    session = sh.CloneSessionEntry(3)
    session.add(4, 1)
    session.insert()
    (read,) = list(sh.CloneSessionEntry().read())
    assert read.session_id == 3
    session.delete()
    print("replication: multicast group, clone session")


def action_profiles() -> None:
    member = sh.ActionProfileMember("paths")(member_id=1, action="send_by")
    member.action["port"] = "1"
    member.insert()
    member = sh.ActionProfileMember("paths")(member_id=2, action="send_by")
    member.action["port"] = "2"
    member.insert()
    group = sh.ActionProfileGroup("paths")(group_id=1)
    group.max_size = 4
    group.add(1, 1).add(2, 3)
    group.insert()
    entry = sh.TableEntry("by_path")(group_id=1)
    entry.match["src"] = "02:00:00:00:00:01"
    entry.insert()
    # BMv2 returns a member once more for each group that holds it.
    members = {read.member_id for read in sh.ActionProfileMember("paths").read()}
    assert members == {1, 2}, members
    (read,) = list(sh.ActionProfileGroup("paths").read())
    assert sorted((m.member_id, m.weight) for m in read.members) == [(1, 1), (2, 3)]
    entry.delete()
    group.delete()
    for member_id in (1, 2):
        sh.ActionProfileMember("paths")(member_id=member_id).delete()

    one_shot = sh.TableEntry("by_path")
    one_shot.match["src"] = "02:00:00:00:00:02"
    actions = sh.Oneshot("by_path")
    for port in ("1", "2"):
        action = sh.Action("send_by")
        action["port"] = port
        actions.add(action, weight=1)
    one_shot.oneshot = actions
    one_shot.insert()
    assert len(list(sh.TableEntry("by_path").read())) == 1
    one_shot.delete()
    print("action profiles: members, group, one-shot set")


def main() -> int:
    if len(sys.argv) != 5:
        print(__doc__, file=sys.stderr)
        return 2
    address, device_id, p4info, config = sys.argv[1:]
    sh.setup(
        device_id=int(device_id),
        grpc_addr=address,
        election_id=(0, 1),
        config=sh.FwdPipeConfig(p4info, config),
        verbose=False,
    )
    try:
        print(f"P4Runtime {sh.APIVersion()}")
        table_entries()
        packets()
        counters()
        meters()
        replication()
        action_profiles()
    finally:
        sh.teardown()
    print("session complete")
    return 0


if __name__ == "__main__":
    sys.exit(main())
