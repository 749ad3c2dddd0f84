// One byte of the packet says what to do with it: drops, replication, clones, resubmission, recirculation, truncation.
#include <core.p4>
#include <v1model.p4>

header op_t { bit<8> op; bit<8> count; bit<16> note; }
struct headers_t { op_t op; }
struct meta_t {
    @field_list(1) bit<16> kept;
    bit<16> lost;
    @field_list(1, 2) bit<8> passes;
}

parser P(packet_in p, out headers_t h, inout meta_t m, inout standard_metadata_t s) {
    state start { p.extract(h.op); transition accept; }
}
control V(inout headers_t h, inout meta_t m) { apply { } }
control I(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    apply {
        if (h.op.op == 1) { mark_to_drop(s); s.mcast_grp = 1; }
        else if (h.op.op == 2) { s.mcast_grp = 1; mark_to_drop(s); }
        else if (h.op.op == 3) { }
        else if (h.op.op == 4) { s.mcast_grp = 77; }
        else if (h.op.op == 5) { mark_to_drop(s); s.egress_spec = 4; }
        else if (h.op.op == 6) {
            m.kept = 0x1234; m.lost = 0x5678; h.op.note = 0xAAAA; s.egress_spec = 2;
            clone_preserving_field_list(CloneType.I2E, 5, 1);
        }
        else if (h.op.op == 7) { m.kept = 0x4321; m.lost = 0x8765; s.egress_spec = 2; }
        else if (h.op.op == 8) {
            if (s.instance_type == 6) { s.egress_spec = 3; h.op.count = m.passes; }
            else { m.passes = 9; m.kept = 5; h.op.note = 0xBBBB; resubmit_preserving_field_list(2); }
        }
        else if (h.op.op == 9) { s.egress_spec = 3; }
        else if (h.op.op == 10) { s.egress_spec = 2; truncate(6); }
        else if (h.op.op == 11) { m.passes = 1; resubmit_preserving_field_list(2); }
        else if (h.op.op == 12) { s.mcast_grp = 2; h.op.setInvalid(); }
    }
}
control E(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    apply {
        if (s.instance_type == 1) { h.op.note = m.kept; h.op.count = (bit<8>)m.lost; }
        else if (s.instance_type == 2) { h.op.note = m.kept + m.lost; }
        else if (h.op.op == 1) { h.op.note = s.egress_rid; h.op.count = h.op.count + 1; }
        else if (h.op.op == 7) { h.op.note = 0xCCCC; clone_preserving_field_list(CloneType.E2E, 5, 1); }
        else if (h.op.op == 9 && h.op.count < 3) {
            h.op.count = h.op.count + 1; m.passes = 7;
            recirculate_preserving_field_list(2);
        }
        else if (h.op.op == 9) { h.op.note = (bit<16>)m.passes; }
        else if (s.mcast_grp == 2) { h.op.setValid(); h.op.note = (bit<16>)s.packet_length; }
    }
}
control C(inout headers_t h, inout meta_t m) { apply { } }
control D(packet_out p, in headers_t h) { apply { p.emit(h); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
