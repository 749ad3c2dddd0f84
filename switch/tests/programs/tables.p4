// Every kind of match, const entries, default actions, profiles, selectors, counters, meters, registers.
#include <core.p4>
#include <v1model.p4>

header key_t { bit<8> kind; bit<32> a; bit<16> b; bit<7> c; bit<1> d; bit<128> wide; bit<32> result; }
header extra_t { bit<32> value; }
struct headers_t { key_t key; extra_t extra; }
struct meta_t { bit<2> colour; }

parser P(packet_in p, out headers_t h, inout meta_t m, inout standard_metadata_t s) {
    state start { p.extract(h.key); transition select(h.key.d) { 1: more; default: accept; } }
    state more { p.extract(h.extra); transition accept; }
}
control V(inout headers_t h, inout meta_t m) { apply { } }
control I(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    action set(bit<32> value) { h.key.result = value; }
    action add(bit<32> value) { h.key.result = h.key.result + value; }
    counter(16, CounterType.packets_and_bytes) by_c;
    meter(4, MeterType.packets) rate;
    register<bit<200>>(8) cells;
    direct_counter(CounterType.packets_and_bytes) exact_hits;
    direct_meter<bit<2>>(MeterType.packets) lpm_rate;

    table exact_t {
        key = { h.key.a: exact; h.key.b: exact; h.key.c: exact; }
        actions = { set; add; NoAction; }
        default_action = set(0xDEF0);
        counters = exact_hits;
        size = 4;
    }
    table wide_t { key = { h.key.wide: exact; } actions = { set; NoAction; } default_action = NoAction(); }
    action measured(bit<32> value) { lpm_rate.read(m.colour); h.key.result = value; }
    table lpm_t {
        key = { h.key.b: exact; h.key.a: lpm; }
        actions = { measured; NoAction; }
        default_action = NoAction();
        meters = lpm_rate;
    }
    table ternary_t {
        key = { h.key.a: ternary; h.key.b: exact; h.key.c: optional; }
        actions = { set; NoAction; }
        default_action = set(1);
        support_timeout = true;
    }
    table range_t {
        key = { h.key.b: range; h.key.c: ternary; h.key.wide: range; }
        actions = { set; NoAction; }
        default_action = set(2);
    }
    table const_t {
        key = { h.key.a: ternary; h.key.b: range; }
        actions = { set; add; }
        const default_action = set(9);
        const entries = {
            (0x10 &&& 0xF0, 5 .. 9): set(100);
            (0x10 &&& 0xFF, _): set(101);
            (_, 7): set(102);
            (_, 8 .. 100): add(5);
        }
    }
    table valid_t {
        key = { h.extra.isValid(): exact; h.extra.value: exact; }
        actions = { set; NoAction; }
        default_action = NoAction();
    }
    action_profile(3) profile;
    table indirect_t {
        key = { h.key.a: exact; } actions = { set; add; } implementation = profile;
    }
    action_selector(HashAlgorithm.crc16, 64, 16) selector;
    table selected_t {
        key = { h.key.a: exact; h.key.b: selector; h.key.c: selector; } actions = { set; add; }
        implementation = selector;
    }
    apply {
        s.egress_spec = 1;
        if (h.key.kind == 0) { exact_t.apply(); by_c.count((bit<32>)h.key.c); }
        else if (h.key.kind == 1) { wide_t.apply(); }
        else if (h.key.kind == 2) { if (lpm_t.apply().hit) { h.key.c = (bit<7>)m.colour; } else { h.key.c = 99; } }
        else if (h.key.kind == 3) { ternary_t.apply(); }
        else if (h.key.kind == 4) { range_t.apply(); }
        else if (h.key.kind == 5) { const_t.apply(); }
        else if (h.key.kind == 6) { if (!valid_t.apply().hit) { h.key.result = 77; } }
        else if (h.key.kind == 7) { switch (indirect_t.apply().action_run) { set: { h.key.c = 1; } add: { h.key.c = 2; } } }
        else if (h.key.kind == 8) { selected_t.apply(); }
        else if (h.key.kind == 9) { bit<2> colour; rate.execute_meter(h.key.a, colour); h.key.result = (bit<32>)colour; }
        else if (h.key.kind == 10) {
            bit<200> old;
            cells.read(old, h.key.a);
            cells.write(h.key.a, (old << 8) | (bit<200>)h.key.b);
            h.key.wide = old[127:0];
            h.key.result = (bit<32>)old[199:168];
        }
    }
}
control E(inout headers_t h, inout meta_t m, inout standard_metadata_t s) { apply { } }
control C(inout headers_t h, inout meta_t m) { apply { } }
control D(packet_out p, in headers_t h) { apply { p.emit(h); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
