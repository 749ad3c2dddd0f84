// Every kind of match, const entries and their priorities, masks of keys, default actions, hit and miss, switches over actions,
// direct and indirect counters, meters that never refill, registers.
#include <core.p4>
#include <v1model.p4>

header key_t {
    bit<8>   a;
    bit<8>   b;
    bit<16>  c;
    bit<32>  d;
    bit<128> e;
    bit<4>   f;
    bit<12>  g;
}

header mark_t {
    bit<16> exact;
    bit<16> lpm;
    bit<16> ternary;
    bit<16> range;
    bit<16> optional;
    bit<16> fixed;
    bit<8>  flags;
    bit<8>  colour;
    bit<32> count;
    bit<96> wide;
}

struct headers_t {
    key_t  key;
    key_t  more;
    mark_t mark;
}

struct metadata_t {
    bit<8>  colour;
    bit<16> picked;
}

parser MyParse(packet_in packet, out headers_t h, inout metadata_t m, inout standard_metadata_t s) {
    state start {
        packet.extract(h.key);
        transition select(h.key.a[7:7]) {
            1: more;
            default: accept;
        }
    }
    state more {
        packet.extract(h.more);
        transition accept;
    }
}

control MyVerify(inout headers_t h, inout metadata_t m) { apply {} }

control MyIngress(inout headers_t h, inout metadata_t m, inout standard_metadata_t s) {
    direct_counter(CounterType.packets_and_bytes) hits;
    direct_meter<bit<8>>(MeterType.packets) rates;
    counter(16, CounterType.packets_and_bytes) seen;
    meter(16, MeterType.packets) limits;
    register<bit<32>>(16) counts;
    register<bit<96>>(4) wides;

    action set_exact(bit<16> v) { h.mark.exact = v; }
    action set_lpm(bit<16> v, bit<9> port) { h.mark.lpm = v; s.egress_spec = port; hits.count(); }
    action set_ternary(bit<16> v) { h.mark.ternary = v; rates.read(m.colour); }
    action set_range(bit<16> v) { h.mark.range = v; }
    action set_optional(bit<16> v) { h.mark.optional = v; }
    action set_fixed(bit<16> v) { h.mark.fixed = v; }
    action lost() { mark_to_drop(s); hits.count(); }
    action rated() { rates.read(m.colour); }
    action nothing() { }

    table exact {
        key = { h.key.a: exact; h.key.c: exact; }
        actions = { set_exact; nothing; }
        default_action = set_exact(0xdead);
        size = 64;
    }
    table lpm {
        key = { h.key.d: lpm; h.key.b: exact; }
        actions = { set_lpm; lost; }
        default_action = lost();
        counters = hits;
        size = 64;
    }
    table ternary {
        key = { h.key.e: ternary; h.key.f: ternary; h.more.isValid(): ternary; h.more.a: ternary; }
        actions = { set_ternary; rated; }
        default_action = rated();
        meters = rates;
        size = 64;
    }
    table range {
        key = { h.key.b: range; h.key.c: range; h.key.f: exact; }
        actions = { set_range; nothing; }
        default_action = nothing();
        size = 64;
    }
    table optional {
        key = { h.key.a: optional; h.key.g: optional; }
        actions = { set_optional; nothing; }
        size = 64;
    }
    table fixed {
        key = { h.key.a & 0x7f: ternary; h.key.c[7:0]: ternary; }
        actions = { set_fixed; nothing; }
        const default_action = nothing();
        const entries = {
            (0x01, 0x00 &&& 0x01): set_fixed(1);
            (0x00 &&& 0x0f, _): set_fixed(2);
            (0x02, 0x10 &&& 0xf0): set_fixed(3);
            (_, 0xff): set_fixed(4);
        }
    }
    table lengths {
        key = { s.packet_length: range; }
        actions = { nothing; lost; }
        const entries = {
            0 .. 200: nothing();
            201 .. 0xffffffff: nothing();
        }
    }

    apply {
        if (s.parser_error != error.NoError) {
            mark_to_drop(s);
            return;
        }
        s.egress_spec = 1;
        h.mark.setValid();
        if (exact.apply().hit) {
            h.mark.flags[0:0] = 1;
        }
        switch (lpm.apply().action_run) {
            set_lpm: { h.mark.flags[1:1] = 1; }
            lost: { h.mark.flags[2:2] = 1; }
        }
        ternary.apply();
        range.apply();
        if (!optional.apply().hit) {
            h.mark.flags[3:3] = 1;
        }
        fixed.apply();
        lengths.apply();
        h.mark.colour = m.colour;
        seen.count((bit<32>)h.key.f);
        bit<2> colour = 0;
        limits.execute_meter((bit<32>)h.key.f, colour);
        h.mark.flags[5:4] = colour;
        bit<32> count;
        counts.read(count, (bit<32>)h.key.f);
        count = count + 1;
        counts.write((bit<32>)h.key.f, count);
        h.mark.count = count;
        bit<96> wide;
        wides.read(wide, (bit<32>)h.key.f[1:0]);
        wide = wide + h.key.e[95:0];
        wides.write((bit<32>)h.key.f[1:0], wide);
        h.mark.wide = wide;
    }
}

control MyEgress(inout headers_t h, inout metadata_t m, inout standard_metadata_t s) {
    action stamp(bit<8> v) { h.key.b = v; }
    action fall() { mark_to_drop(s); }
    table by_port {
        key = { s.egress_port: exact; h.key.c: lpm; }
        actions = { stamp; fall; NoAction; }
        size = 32;
    }
    apply {
        by_port.apply();
    }
}

control MyCompute(inout headers_t h, inout metadata_t m) { apply {} }

control MyDeparse(packet_out packet, in headers_t h) {
    apply {
        packet.emit(h.key);
        packet.emit(h.more);
        packet.emit(h.mark);
    }
}

V1Switch(MyParse(), MyVerify(), MyIngress(), MyEgress(), MyCompute(), MyDeparse()) main;
