// Clones of both sorts with preserved fields, resubmission, recirculation, multicast, truncation, drops.
#include <core.p4>
#include <v1model.p4>

header work_t {
    bit<8>  what;
    bit<8>  rounds;
    bit<16> port;
    bit<16> group;
    bit<32> note;
}

header trace_t {
    bit<32> instance;
    bit<16> rid;
    bit<16> kept;
    bit<16> lost;
    bit<32> length;
    bit<16> ports;
    bit<8>  passes;
}

struct headers_t {
    work_t  work;
    trace_t trace;
}

struct metadata_t {
    @field_list(1, 2)
    bit<16> kept;
    @field_list(2)
    bit<8>  passes;
    bit<16> lost;
}

parser MyParse(packet_in packet, out headers_t h, inout metadata_t m, inout standard_metadata_t s) {
    state start {
        packet.extract(h.work);
        transition select(h.work.what) {
            0x80 &&& 0x80: traced;
            default: accept;
        }
    }
    state traced {
        packet.extract(h.trace);
        transition accept;
    }
}

control MyVerify(inout headers_t h, inout metadata_t m) { apply {} }

control MyIngress(inout headers_t h, inout metadata_t m, inout standard_metadata_t s) {
    apply {
        // What an invalid header holds is anything.
        if (!h.work.isValid()) {
            s.egress_spec = 1;
            return;
        }
        s.egress_spec = h.work.port[8:0];
        m.lost = 0x1111;
        m.kept = m.kept + (bit<16>)h.work.rounds + 1;
        m.passes = m.passes + 1;
        bit<4> what = h.work.what[3:0];
        if (what == 1) {
            clone(CloneType.I2E, 5);
            h.work.note = 0x01010101;
        } else if (what == 2) {
            clone_preserving_field_list(CloneType.I2E, 5, 1);
        } else if (what == 3 && m.passes < 3) {
            h.work.note = 0x03030303;
            resubmit_preserving_field_list(2);
        } else if (what == 4) {
            s.mcast_grp = h.work.group;
        } else if (what == 5) {
            truncate((bit<32>)h.work.rounds);
        } else if (what == 6) {
            mark_to_drop(s);
        } else if (what == 7) {
            clone_preserving_field_list(CloneType.I2E, (bit<32>)h.work.group, 2);
            mark_to_drop(s);
        } else if (what == 8 && s.instance_type == 0) {
            resubmit_preserving_field_list(1);
            s.mcast_grp = 3;
        } else if (what == 9) {
            clone_preserving_field_list(CloneType.I2E, 6, 1);
            s.mcast_grp = 2;
            m.kept = 0x9999;
        }
    }
}

control MyEgress(inout headers_t h, inout metadata_t m, inout standard_metadata_t s) {
    apply {
        if (!h.work.isValid()) {
            return;
        }
        bit<4> what = h.work.what[3:0];
        if (what == 10 && s.instance_type == 0) {
            clone_preserving_field_list(CloneType.E2E, 7, 1);
            h.work.note = 0x0a0a0a0a;
        } else if (what == 11 && h.work.rounds > 0 && h.work.rounds < 8) {
            h.work.rounds = h.work.rounds - 1;
            recirculate_preserving_field_list(2);
        } else if (what == 12 && s.instance_type == 0) {
            clone(CloneType.E2E, 5);
            mark_to_drop(s);
        } else if (what == 13) {
            truncate(40);
        }
        if (!h.trace.isValid()) {
            h.trace.setValid();
            h.work.what = h.work.what | 0x80;
        }
        h.trace.instance = s.instance_type;
        h.trace.rid = s.egress_rid;
        h.trace.kept = m.kept;
        h.trace.lost = m.lost;
        h.trace.length = s.packet_length;
        h.trace.ports = s.ingress_port[7:0] ++ s.egress_port[7:0];
        h.trace.passes = m.passes;
    }
}

control MyCompute(inout headers_t h, inout metadata_t m) { apply {} }

control MyDeparse(packet_out packet, in headers_t h) {
    apply {
        packet.emit(h.work);
        packet.emit(h.trace);
    }
}

V1Switch(MyParse(), MyVerify(), MyIngress(), MyEgress(), MyCompute(), MyDeparse()) main;
