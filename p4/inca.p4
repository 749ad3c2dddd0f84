// inca: in-network collective aggregation on v1model (BMv2 simple_switch).
//
// Follow a gradient: parser.p4 takes the packet apart, slot.p4 finds the slot it may touch and decides what it does there,
// accumulate.p4 adds it, reduction.p4 sends the finished sum on, round.p4 turns the finished sum into a result at the root, egress.p4 addresses each copy.
// Nothing about a job, a topology or a number format is compiled in: all of it is table entries.

// Registers and counters with index types of their own.
#define V1MODEL_VERSION 20200408
#include <core.p4>
#include <v1model.p4>

#include "constants.p4"
#include "headers.p4"
#include "parser.p4"
#include "forwarding.p4"

// The sums so far: two wide words, one per plane, for each word of payload. The ingress adds, the egress reads what goes to the parent.
@name(".accumulator_low")  register<word_t, word_index_t>(SLOT_WORDS) accumulator_low;
@name(".accumulator_high") register<word_t, word_index_t>(SLOT_WORDS) accumulator_high;

#include "accumulate.p4"
#include "slot.p4"
#include "round.p4"
#include "reduction.p4"
#include "egress.p4"
#include "deparser.p4"

control IncaIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    // What became of each packet: index EVENT_* or DROP_* of constants.p4.
    @name(".events") counter<bit<32>>(EVENTS, CounterType.packets) events;

    ToController(REASON_LINK_PROBE) link_probe_to_controller;
    ToController(REASON_ANNOUNCE) announce_to_controller;
    Arp() arp;
    Ipv4Forwarding() forwarding;
    Reduction() reduction;

    // This switch's own addresses: its service address and the announce address. Filled by the controller.
    @name(".service")
    table service {
        key = { hdr.ipv4.dst_addr: exact @name("dst_addr"); }
        actions = { NoAction; }
        default_action = NoAction();
        size = 16;
    }

    apply {
        if (standard_metadata.ingress_port == CPU_PORT && standard_metadata.parser_error == error.NoError) {
            meta.event = EVENT_FROM_CONTROLLER;
        } else if (hdr.ipv4.isValid()) {
            if (!service.apply().hit) {
                forwarding.apply(hdr, meta, standard_metadata);
            } else if (!hdr.inca.isValid()) {
                meta.event = DROP_NO_ROUTE;
            } else if (hdr.inca.opcode == OPCODE_ANNOUNCE && standard_metadata.parser_error == error.NoError) {
                announce_to_controller.apply(hdr, meta, standard_metadata);
            } else {
                reduction.apply(hdr, meta, standard_metadata);
            }
        } else if (hdr.arp.isValid()) {
            arp.apply(hdr, meta, standard_metadata);
        } else if (hdr.ethernet.isValid() && hdr.ethernet.ether_type == ETHERTYPE_LLDP) {
            link_probe_to_controller.apply(hdr, meta, standard_metadata);
        } else {
            meta.event = DROP_UNKNOWN_ETHERTYPE;
        }
        events.count(meta.event);
        if (meta.event < EVENT_FORWARDED) {
            mark_to_drop(standard_metadata);
        }
    }
}

V1Switch(IncaParser(), IncaVerifyChecksum(), IncaIngress(), IncaEgress(), IncaComputeChecksum(), IncaDeparser()) main;
