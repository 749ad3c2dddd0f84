// State by slot: what a slot holds depends on the order of its packets, so two threads must never share one.
#include <core.p4>
#include <v1model.p4>

header slot_t { bit<8> slot; bit<8> value; bit<32> chain; bit<16> note; }
struct headers_t { slot_t slot; }
struct meta_t { }

parser P(packet_in p, out headers_t h, inout meta_t m, inout standard_metadata_t s) {
    state start { p.extract(h.slot); transition accept; }
}
control V(inout headers_t h, inout meta_t m) { apply { } }
control I(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    register<bit<32>>(256) chains;
    counter(256, CounterType.packets_and_bytes) slots;
    direct_counter(CounterType.packets) hits;
    action send(bit<9> port) { hits.count(); s.egress_spec = port; }
    action back() { hits.count(); s.egress_spec = s.ingress_port; }
    table route {
        key = { h.slot.slot : exact; }
        actions = { send; back; NoAction; }
        default_action = NoAction();
        counters = hits;
    }
    apply {
        bit<32> chain;
        @atomic {
            chains.read(chain, (bit<32>)h.slot.slot);
            chain = chain * 31 + (bit<32>)h.slot.value;
            chains.write((bit<32>)h.slot.slot, chain);
        }
        slots.count((bit<32>)h.slot.slot);
        h.slot.chain = chain;
        route.apply();
    }
}
control E(inout headers_t h, inout meta_t m, inout standard_metadata_t s) { apply { } }
control C(inout headers_t h, inout meta_t m) { apply { } }
control D(packet_out p, in headers_t h) { apply { p.emit(h); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
