"""A session of finsy with a switch: pipeline, a batch of entries, groups, registers, packets, errors.

usage: p4runtime_finsy_session.py ADDRESS DEVICE_ID P4INFO JSON

The program is tests/fixtures/p4runtime/objects.p4. Prints what was done; any difference ends it with an exception.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import finsy as fy

WORD_KIND = 0x88B5
DESTINATION = 0x02_00_00_00_00_09
PIPELINE_PORT = 510
TIMEOUT_S = 30
WORD = int.from_bytes(bytes(range(256)), "big")


async def entries(switch: fy.Switch) -> None:
    await switch.write(
        [
            +fy.P4TableEntry(
                "ternary_match",
                match=fy.Match(port=255, kind="0x88b5/&0xffff"),
                action=fy.Action("set_word", value=WORD),
                priority=7,
            ),
            +fy.P4TableEntry(
                "exact_match",
                match=fy.Match(dst=DESTINATION),
                action=fy.Action("to_controller", reason=42),
            ),
            +fy.P4TableEntry("lpm_match", match=fy.Match(key="10.0.0.0/8"), action=fy.Action("set_key", value=1)),
            +fy.P4MulticastGroupEntry(5, replicas=[(1, 1), (2, 3)]),
        ]
    )
    (read,) = [entry async for entry in switch.read(fy.P4TableEntry("ternary_match"))]
    assert isinstance(read.action, fy.Action)
    assert read.action.args["value"] == WORD, "2048 bits survive"
    (group,) = [group async for group in switch.read(fy.P4MulticastGroupEntry())]
    assert {(r.port, r.instance) for r in group.replicas} == {(1, 1), (2, 3)}, group
    print("entries: one batch written, read back by wildcard")


async def errors(switch: fy.Switch) -> None:
    double = fy.P4TableEntry("exact_match", match=fy.Match(dst=DESTINATION), action=fy.Action("drop"))
    codes = []
    try:
        await switch.write([+double])
    except fy.P4ClientError as error:
        codes = [detail.canonical_code for detail in error.details.values()]
    assert codes == [fy.GRPCStatusCode.ALREADY_EXISTS], codes
    print("errors: canonical codes arrive")


async def packets(switch: fy.Switch) -> None:
    frame = DESTINATION.to_bytes(6, "big") + bytes(6) + WORD_KIND.to_bytes(2, "big") + bytes(256)
    async with asyncio.timeout(5):
        received = asyncio.ensure_future(anext(aiter(switch.read_packets())))
        await asyncio.sleep(0)
        await switch.write([fy.P4PacketOut(frame, egress_port=PIPELINE_PORT, replicate=0, pad=0)])
        packet = await received
    assert packet.payload[14:] == bytes(range(256)), "the entry's parameter is in the packet"
    assert packet["ingress_port"] == 255
    assert packet["reason"] == 42
    print("packets: out, through the tables, and in again")


async def profiles(switch: fy.Switch) -> None:
    send = [fy.P4ActionProfileMember("paths", member_id=n, action=fy.Action("send_by", port=n)) for n in (1, 2)]
    members = [fy.P4Member(1, weight=1), fy.P4Member(2, weight=3)]
    group = fy.P4ActionProfileGroup("paths", group_id=1, max_size=4, members=members)
    entry = fy.P4TableEntry("by_path", match=fy.Match(src=1), action=fy.P4IndirectAction(group_id=1))
    await switch.insert([*send, group, entry])
    (read,) = [entry async for entry in switch.read(fy.P4TableEntry("by_path"))]
    assert isinstance(read.action, fy.P4IndirectAction)
    assert read.action.group_id == 1
    await switch.delete([entry, group, *send])
    print("action profiles: members, a group, an entry of it")


async def arrays(switch: fy.Switch) -> None:
    counter = fy.P4CounterEntry("seen", index=2, data=fy.P4CounterData(byte_count=10, packet_count=1))
    config = fy.P4MeterConfig(cir=1, cburst=2, pir=3, pburst=4)
    await switch.modify([counter, fy.P4MeterEntry("rate", index=1, config=config)])
    counters = {cell.index: cell.data async for cell in switch.read(fy.P4CounterEntry("seen"))}
    assert len(counters) == 8
    assert counters[2] == fy.P4CounterData(byte_count=10, packet_count=1), counters
    meters = {cell.index: cell.config async for cell in switch.read(fy.P4MeterEntry("rate"))}
    assert meters[1] == config, meters
    session = fy.P4CloneSessionEntry(3, replicas=[(4, 1)])
    await switch.insert([session])
    (found,) = [found async for found in switch.read(fy.P4CloneSessionEntry())]
    assert found.session_id == 3
    await switch.delete([session])
    print("counters, meters, clone sessions: written, read by wildcard")


async def notifications(switch: fy.Switch) -> None:
    learn = fy.P4ActionProfileMember("shared", member_id=1, action=fy.Action("learn"))
    entry = fy.P4TableEntry("by_profile", match=fy.Match(src=1), action=fy.P4IndirectAction(member_id=1))
    digest = fy.P4DigestEntry("learn_t", max_list_size=1, ack_timeout_ns=1_000_000_000)
    await switch.insert([learn, entry, digest])
    frame = bytes(6) + (1).to_bytes(6, "big") + bytes(50)
    async with asyncio.timeout(5):
        heard = asyncio.ensure_future(anext(aiter(switch.read_digests("learn_t"))))
        await asyncio.sleep(0)
        await switch.write([fy.P4PacketOut(frame, egress_port=PIPELINE_PORT, replicate=0, pad=0)])
        digests = await heard
        assert digests.data == [{"mac": 1, "port": 255}], digests
        await switch.write([digests.ack()])
    await switch.delete([digest, entry, learn])
    idle = fy.P4TableEntry("exact_match", match=fy.Match(dst=5), action=fy.Action("drop"), idle_timeout_ns=1_000_000)
    async with asyncio.timeout(5):
        told = asyncio.ensure_future(anext(aiter(switch.read_idle_timeouts())))
        await asyncio.sleep(0)
        await switch.insert([idle])
        notification = await told
    assert notification.table_entry[0].match["dst"] == 5
    await switch.delete([idle])
    print("notifications: a digest, acknowledged, and an entry that was not hit")


async def registers(switch: fy.Switch) -> None:
    await switch.write([~fy.P4RegisterEntry("words", index=3, data=WORD)])
    (cell,) = [cell async for cell in switch.read(fy.P4RegisterEntry("words", index=3))]
    assert cell.data == WORD
    print("registers: written and read")


async def session(address: str, device_id: int, p4info: Path, config: Path, with_registers: bool) -> None:
    options = fy.SwitchOptions(p4info=p4info, p4blob=config, device_id=device_id)
    async with fy.Switch("s1", address, options) as switch:
        print(f"P4Runtime {switch.p4runtime_version}")
        await entries(switch)
        await errors(switch)
        await packets(switch)
        await profiles(switch)
        await arrays(switch)
        if with_registers:
            await registers(switch)
            await notifications(switch)
        await switch.delete_all()
        assert [entry async for entry in switch.read(fy.P4TableEntry("exact_match"))] == []
        await switch.write([-fy.P4MulticastGroupEntry(5)])
        assert [entry async for entry in switch.read(fy.P4MulticastGroupEntry())] == []
        print("session complete")


def main() -> int:
    if len(sys.argv) not in (5, 6):
        print(__doc__, file=sys.stderr)
        return 2
    address, device_id, p4info, config, *rest = sys.argv[1:]
    coroutine = session(address, int(device_id), Path(p4info), Path(config), rest != ["--no-registers"])
    asyncio.run(asyncio.wait_for(coroutine, TIMEOUT_S))
    return 0


if __name__ == "__main__":
    sys.exit(main())
