// Stacks, unions and stacks of unions, variable-length fields, lookahead, advance, verify, value sets, parser errors.
#include <core.p4>
#include <v1model.p4>

error { BadKind }

header first_t {
    bit<8> kind;
    bit<8> count;
    bit<8> shift;
    bit<8> what;
}

header item_t {
    bit<1>  last;
    bit<7>  value;
    bit<16> more;
}

header long_t  { bit<8> tag; bit<32> value; }
header short_t { bit<8> tag; bit<8> value; }

header_union either_t {
    long_t  l;
    short_t s;
}

header options_t {
    bit<8>      length;
    bit<8>      rest;
    varbit<128> options;
}

header tail_t {
    bit<16> seen;
    bit<16> after;
}

struct headers_t {
    first_t     first;
    item_t[4]   items;
    item_t[4]   copies;
    either_t    one;
    either_t    other;
    either_t[3] all;
    options_t   options;
    options_t   again;
    tail_t      tail;
}

struct metadata_t {
    bit<8>  left;
    bit<16> seen;
    bit<32> index;
}

parser MyParse(packet_in packet, out headers_t h, inout metadata_t m, inout standard_metadata_t s) {
    value_set<bit<8>>(4) known;

    state start {
        packet.extract(h.first);
        m.left = h.first.count & 7;
        transition select(h.first.kind) {
            0: accept;
            1: items;
            2: either;
            3: unions;
            4: variable;
            5: ahead;
            6: skip;
            known: items;
            0x10 &&& 0xf0: either;
            0x20 .. 0x27: checked;
            default: bad;
        }
    }
    state items {
        packet.extract(h.items.next);
        m.index = h.items.lastIndex;
        transition select(h.items.last.last) {
            1: variable;
            default: items;
        }
    }
    state either {
        transition select(packet.lookahead<bit<8>>()) {
            0 .. 127: short;
            default: long;
        }
    }
    state short {
        packet.extract(h.one.s);
        transition accept;
    }
    state long {
        packet.extract(h.one.l);
        transition accept;
    }
    state unions {
        transition select(m.left, packet.lookahead<bit<1>>()) {
            (0, _): accept;
            (_, 0): next_short;
            default: next_long;
        }
    }
    state next_short {
        packet.extract(h.all.next.s);
        m.left = m.left - 1;
        transition unions;
    }
    state next_long {
        packet.extract(h.all.next.l);
        m.left = m.left - 1;
        transition unions;
    }
    state variable {
        packet.extract(h.options, (bit<32>)(packet.lookahead<bit<8>>() << 3));
        transition accept;
    }
    state ahead {
        m.seen = packet.lookahead<tail_t>().after;
        packet.extract(h.tail);
        transition accept;
    }
    state skip {
        packet.advance((bit<32>)h.first.shift << 2);
        packet.extract(h.tail);
        transition accept;
    }
    state checked {
        verify(h.first.count < 9, error.BadKind);
        verify(h.first.shift != 0, error.HeaderTooShort);
        packet.extract(h.tail);
        transition accept;
    }
    state bad {
        verify(false, error.BadKind);
        transition reject;
    }
}

control MyVerify(inout headers_t h, inout metadata_t m) { apply {} }

control MyIngress(inout headers_t h, inout metadata_t m, inout standard_metadata_t s) {
    action move(bit<8> how) {
        if (how == 0) {
            h.items.push_front(1);
            h.items[0].setValid();
            h.items[0].value = 9;
        } else if (how == 1) {
            h.items.pop_front(2);
        } else if (how == 2) {
            h.copies = h.items;
            h.items[2].setInvalid();
        } else {
            h.items[1] = h.items[3];
            h.items[0].value = h.items[0].value + 1;
        }
    }
    apply {
        s.egress_spec = 3;
        if (!h.first.isValid()) {
            h.first.setValid();
            h.first.kind = 0xff;
        }
        if (s.parser_error == error.NoError) {
            h.first.what = 0;
        } else if (s.parser_error == error.PacketTooShort) {
            h.first.what = 1;
        } else if (s.parser_error == error.StackOutOfBounds) {
            h.first.what = 3;
        } else if (s.parser_error == error.HeaderTooShort) {
            h.first.what = 4;
        } else if (s.parser_error == error.ParserInvalidArgument) {
            h.first.what = 6;
        } else if (s.parser_error == error.BadKind) {
            h.first.what = 7;
        } else {
            h.first.what = 0xee;
        }
        if (h.items[0].isValid()) {
            move(h.first.shift & 3);
        }
        if (h.one.isValid()) {
            h.other = h.one;
            if (h.one.s.isValid()) {
                h.one.l.setValid();
                h.one.l.tag = 0xcc;
                h.one.l.value = 0x01020304;
            } else {
                h.one.l.value = h.one.l.value + 1;
            }
            h.first.count = h.other == h.one ? 8w1 : 8w2;
        }
        if (h.all[1].s.isValid()) {
            h.all[0].s.setInvalid();
            h.all[1].s.value = 0x77;
        }
        if (h.options.isValid()) {
            h.again = h.options;
            if (h.first.shift == 7) {
                h.options.setInvalid();
            }
            if (h.again == h.options) {
                h.first.count = 0x55;
            }
        }
        if (h.tail.isValid()) {
            h.tail.seen = m.seen;
        }
        if (h.items[0].isValid()) {
            h.first.shift = m.index[7:0];
        }
    }
}

control MyEgress(inout headers_t h, inout metadata_t m, inout standard_metadata_t s) {
    apply {
        if (h.first.kind == 0x21) {
            h.first.setInvalid();
        }
    }
}

control MyCompute(inout headers_t h, inout metadata_t m) { apply {} }

control MyDeparse(packet_out packet, in headers_t h) {
    apply {
        packet.emit(h.first);
        packet.emit(h.items);
        packet.emit(h.copies);
        packet.emit(h.one);
        packet.emit(h.other);
        packet.emit(h.all);
        packet.emit(h.options);
        packet.emit(h.again);
        packet.emit(h.tail);
    }
}

V1Switch(MyParse(), MyVerify(), MyIngress(), MyEgress(), MyCompute(), MyDeparse()) main;
