// Parser: stacks, lookahead, masks, value sets, verify, advance, variable length, unions; header operations after it.
#include <core.p4>
#include <v1model.p4>

error { TooMany }
header start_t { bit<8> mode; bit<4> left; bit<4> flags; }
header item_t { bit<7> value; bit<1> last; bit<16> more; }
header options_t { bit<8> length; varbit<320> data; }
header a_t { bit<8> tag; bit<16> value; }
header b_t { bit<8> tag; bit<32> value; }
header_union u_t { a_t a; b_t b; }
header tail_t { bit<8> error_code; bit<8> count; bit<16> value; }
struct headers_t { start_t start; item_t[4] items; options_t options; u_t u; tail_t tail; }
struct meta_t { bit<8> peek; bit<3> odd; }

parser P(packet_in p, out headers_t h, inout meta_t m, inout standard_metadata_t s) {
    value_set<bit<16>>(4) known;
    state start {
        p.extract(h.start);
        transition select(h.start.mode, h.start.flags) {
            (1, _): items;
            (2, 0x8 &&& 0x8): look;
            (3, _): options;
            (4, _): unions;
            (5, _): checked;
            (6, _): skip;
            (7, _): in_set;
            (0x40 &&& 0xC0, 3): odd_bits;
            default: accept;
        }
    }
    state items { p.extract(h.items.next); transition select(h.items.last.last) { 1: accept; default: items; } }
    state look { m.peek = p.lookahead<bit<8>>(); transition select(m.peek) { 9: items; default: accept; } }
    state options {
        bit<8> length = p.lookahead<bit<8>>();
        p.extract(h.options, (bit<32>)length * 8);
        transition accept;
    }
    state unions {
        transition select(p.lookahead<bit<8>>()) { 1: union_a; 2: union_b; default: accept; }
    }
    state union_a { p.extract(h.u.a); transition accept; }
    state union_b { p.extract(h.u.b); transition accept; }
    state checked { verify(h.start.left < 5, error.TooMany); transition items; }
    state skip { p.advance((bit<32>)h.start.left * 8); transition items; }
    state in_set { transition select(p.lookahead<bit<16>>()) { known: items; default: accept; } }
    state odd_bits { m.odd = p.lookahead<bit<3>>(); transition accept; }
}
control V(inout headers_t h, inout meta_t m) { apply { } }
control I(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    apply {
        s.egress_spec = 1;
        h.tail.setValid();
        h.tail.value = (bit<16>)m.peek + (bit<16>)m.odd;
        if (s.parser_error == error.NoError) { h.tail.error_code = 0; }
        else if (s.parser_error == error.PacketTooShort) { h.tail.error_code = 1; }
        else if (s.parser_error == error.StackOutOfBounds) { h.tail.error_code = 3; }
        else if (s.parser_error == error.HeaderTooShort) { h.tail.error_code = 4; }
        else if (s.parser_error == error.ParserInvalidArgument) { h.tail.error_code = 6; }
        else if (s.parser_error == error.TooMany) { h.tail.error_code = 50; }
        else { h.tail.error_code = 0xFF; }
        if (h.start.isValid() && h.start.mode == 1) {
            if (h.start.flags == 1) { h.items.push_front(1); h.items[0].setValid(); h.items[0].value = 42; h.items[0].last = 0; h.items[0].more = 7; }
            if (h.start.flags == 2) { h.items.pop_front(2); }
            if (h.start.flags == 3) { h.items[1] = h.items[0]; h.items[3] = h.items[2]; }
            if (h.start.flags == 4) { h.items[(bit<2>)h.start.left].more = h.items[0].more + 1; }
        }
        if (h.u.a.isValid() && h.start.flags == 1) { h.u.b.setValid(); h.u.b.tag = 2; h.u.b.value = (bit<32>)h.u.a.value; }
        if (h.options.isValid() && h.start.flags == 1) { h.options.setInvalid(); }
        h.tail.count = (bit<8>)s.packet_length;
    }
}
control E(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    apply { if (h.tail.isValid() && h.start.left == 15) { h.tail.count = (bit<8>)s.packet_length; } }
}
control C(inout headers_t h, inout meta_t m) { apply { } }
control D(packet_out p, in headers_t h) { apply { p.emit(h); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
