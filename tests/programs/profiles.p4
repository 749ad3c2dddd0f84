// An action profile, a selector that hashes, assertions that hold, log messages, exit in nested places.
#include <core.p4>
#include <v1model.p4>

header flow_t {
    bit<32> src;
    bit<32> dst;
    bit<16> sport;
    bit<16> dport;
    bit<8>  proto;
    bit<8>  mark;
    bit<16> path;
}

struct headers_t { flow_t flow; }
struct metadata_t { bit<16> salt; }

parser MyParse(packet_in packet, out headers_t h, inout metadata_t m, inout standard_metadata_t s) {
    state start {
        packet.extract(h.flow);
        transition accept;
    }
}

control MyVerify(inout headers_t h, inout metadata_t m) { apply {} }

control MyIngress(inout headers_t h, inout metadata_t m, inout standard_metadata_t s) {
    action_selector(HashAlgorithm.crc16, 32w64, 32w14) paths;
    action_profile(32w16) marks;

    action go(bit<9> port, bit<16> path) {
        s.egress_spec = port;
        h.flow.path = path;
    }
    action stop() {
        mark_to_drop(s);
        exit;
    }
    action mark(bit<8> v) { h.flow.mark = v; }

    table routes {
        key = {
            h.flow.dst: lpm;
            h.flow.src: selector;
            h.flow.sport: selector;
            m.salt: selector;
            h.flow.proto: selector;
        }
        actions = { go; stop; NoAction; }
        implementation = paths;
        size = 16;
    }
    table marking {
        key = { h.flow.proto: exact; }
        actions = { mark; NoAction; }
        implementation = marks;
        size = 16;
    }
    apply {
        assert(s.ingress_port != 500);
        m.salt = h.flow.dport ^ 0x5a5a;
        s.egress_spec = 9;
        if (!h.flow.isValid()) {
            exit;
        }
        marking.apply();
        if (h.flow.mark == 3) {
            h.flow.path = 0x3333;
            return;
        }
        routes.apply();
        assume(h.flow.isValid());
        log_msg("path {} of {}", { h.flow.path, h.flow.dst });
        h.flow.path = h.flow.path + 1;
    }
}

control MyEgress(inout headers_t h, inout metadata_t m, inout standard_metadata_t s) {
    apply {
        if (h.flow.mark == 4) {
            h.flow.proto = 0xee;
            exit;
        }
        h.flow.mark = h.flow.mark + 1;
    }
}

control MyCompute(inout headers_t h, inout metadata_t m) { apply {} }

control MyDeparse(packet_out packet, in headers_t h) {
    apply { packet.emit(h.flow); }
}

V1Switch(MyParse(), MyVerify(), MyIngress(), MyEgress(), MyCompute(), MyDeparse()) main;
