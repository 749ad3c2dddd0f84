// The baseline of the data-plane benchmark: one 32-bit register operation per element, the way aggregation is commonly
// written for switches whose stages hold 32-bit registers: a stack of elements, a register array, an index per element. It takes inca's
// frames and answers with a result of the same size to all workers, but has none of inca's protocol: no duplicates, no
// generations, no tree, no alignment; plain wrapping adds.

#include <core.p4>
#include <v1model.p4>

#define MAX_WORDS 5
#define SLOTS 64

const bit<16> ETHERTYPE_IPV4  = 0x0800;
const bit<8>  IP_PROTOCOL_UDP = 17;
const bit<16> INCA_UDP_PORT   = 18766;

// A stack holds at most 256 headers, a packet up to 320 elements: two stacks.
#define ELEMENTS 320
#define OFFSET_first 0
#define OFFSET_second 256

#define TEN(OP, stack, tens) \
    OP(stack, tens##0) OP(stack, tens##1) OP(stack, tens##2) OP(stack, tens##3) OP(stack, tens##4) \
    OP(stack, tens##5) OP(stack, tens##6) OP(stack, tens##7) OP(stack, tens##8) OP(stack, tens##9)
// OP(stack, 0) ... OP(stack, 63): a word's elements.
#define WORD_0(OP, stack) TEN(OP, stack, ) TEN(OP, stack, 1) TEN(OP, stack, 2) TEN(OP, stack, 3) TEN(OP, stack, 4) TEN(OP, stack, 5) \
    OP(stack, 60) OP(stack, 61) OP(stack, 62) OP(stack, 63)
#define WORD_1(OP, stack) OP(stack, 64) OP(stack, 65) OP(stack, 66) OP(stack, 67) OP(stack, 68) OP(stack, 69) \
    TEN(OP, stack, 7) TEN(OP, stack, 8) TEN(OP, stack, 9) TEN(OP, stack, 10) TEN(OP, stack, 11) \
    OP(stack, 120) OP(stack, 121) OP(stack, 122) OP(stack, 123) OP(stack, 124) OP(stack, 125) OP(stack, 126) OP(stack, 127)
#define WORD_2(OP, stack) OP(stack, 128) OP(stack, 129) TEN(OP, stack, 13) TEN(OP, stack, 14) TEN(OP, stack, 15) TEN(OP, stack, 16) TEN(OP, stack, 17) TEN(OP, stack, 18) OP(stack, 190) OP(stack, 191)
#define WORD_3(OP, stack) OP(stack, 192) OP(stack, 193) OP(stack, 194) OP(stack, 195) OP(stack, 196) OP(stack, 197) \
    OP(stack, 198) OP(stack, 199) TEN(OP, stack, 20) TEN(OP, stack, 21) TEN(OP, stack, 22) TEN(OP, stack, 23) TEN(OP, stack, 24) \
    OP(stack, 250) OP(stack, 251) OP(stack, 252) OP(stack, 253) OP(stack, 254) OP(stack, 255)

header ethernet_t { bit<48> dst_addr; bit<48> src_addr; bit<16> ether_type; }

header ipv4_t {
    bit<8> version_ihl; bit<8> diffserv; bit<16> total_length; bit<16> identification; bit<16> fragment;
    bit<8> ttl; bit<8> protocol; bit<16> checksum; bit<32> src_addr; bit<32> dst_addr;
}

header udp_t { bit<16> src_port; bit<16> dst_port; bit<16> length; bit<16> checksum; }

// inca's header, of which this program uses slot and words.
header inca_t {
    bit<8> version; bit<8> opcode; bit<8> flags; bit<8> format; bit<16> tree_id; bit<16> member; bit<32> generation;
    bit<32> slot; bit<32> sequence; bit<32> tag; bit<8> plane; bit<8> words; bit<16> contributions;
    bit<16> exp_max; bit<16> exp_min; bit<64> bias;
}

header element_t { bit<32> value; }

struct headers_t {
    ethernet_t ethernet;
    ipv4_t ipv4;
    udp_t udp;
    inca_t inca;
    element_t[256] first;
    element_t[64] second;
}

struct metadata_t {
    bit<32> count;
    bit<32> value;
    bit<32> workers;
    bit<16> group;
}

parser BaselineParser(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    bit<16> elements_left;

    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.ether_type) { ETHERTYPE_IPV4: parse_ipv4; default: accept; }
    }
    state parse_ipv4 {
        packet.extract(hdr.ipv4);
        transition select(hdr.ipv4.protocol) { IP_PROTOCOL_UDP: parse_udp; default: accept; }
    }
    state parse_udp {
        packet.extract(hdr.udp);
        transition select(hdr.udp.dst_port) { INCA_UDP_PORT: parse_inca; default: accept; }
    }
    state parse_inca {
        packet.extract(hdr.inca);
        elements_left = (bit<16>)hdr.inca.words * 64;
        transition select(elements_left) { 0: accept; default: parse_first; }
    }
    state parse_first {
        packet.extract(hdr.first.next);
        elements_left = elements_left - 1;
        transition select(hdr.inca.words, elements_left) {
            (_, 0): accept;
            (MAX_WORDS, 64): parse_second;
            default: parse_first;
        }
    }
    state parse_second {
        packet.extract(hdr.second.next);
        elements_left = elements_left - 1;
        transition select(elements_left) { 0: accept; default: parse_second; }
    }
}

control BaselineIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    register<bit<32>>(SLOTS) counts;

    register<bit<32>>(SLOTS * ELEMENTS) sums;

#define INDEX(stack, i) hdr.inca.slot * ELEMENTS + (OFFSET_##stack + i)
#define FOR_ALL(OP) \
        if (hdr.inca.words > 0) { WORD_0(OP, first) } \
        if (hdr.inca.words > 1) { WORD_1(OP, first) } \
        if (hdr.inca.words > 2) { WORD_2(OP, first) } \
        if (hdr.inca.words > 3) { WORD_3(OP, first) } \
        if (hdr.inca.words > 4) { WORD_0(OP, second) }

    action store() {
#define OP(stack, i) sums.write(INDEX(stack, i), hdr.stack[i].value);
        FOR_ALL(OP)
#undef OP
    }

    action add() {
#define OP(stack, i) \
        sums.read(meta.value, INDEX(stack, i)); \
        hdr.stack[i].value = hdr.stack[i].value + meta.value; \
        sums.write(INDEX(stack, i), hdr.stack[i].value);
        FOR_ALL(OP)
#undef OP
    }

    @name(".set_job")
    action set_job(bit<32> workers, bit<16> group) {
        meta.workers = workers;
        meta.group = group;
    }

    @name(".job")
    table job {
        key = { hdr.inca.tree_id: exact @name("tree_id"); }
        actions = { set_job; NoAction; }
        default_action = NoAction();
        size = 16;
    }

    action count() {
        counts.read(meta.count, hdr.inca.slot);
        meta.count = meta.count + 1;
        if (meta.count == meta.workers) {
            counts.write(hdr.inca.slot, 0);
            standard_metadata.mcast_grp = meta.group;
        } else {
            counts.write(hdr.inca.slot, meta.count);
            mark_to_drop(standard_metadata);
        }
    }

    apply {
        if (hdr.inca.isValid() && hdr.inca.slot < SLOTS && hdr.inca.words <= MAX_WORDS && job.apply().hit) {
            count();
            if (meta.count == 1) {
                store();
            } else {
                add();
            }
        } else {
            mark_to_drop(standard_metadata);
        }
    }
}

control BaselineEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    apply { hdr.inca.opcode = 3; }
}

control NoVerify(inout headers_t hdr, inout metadata_t meta) { apply { } }

control NoCompute(inout headers_t hdr, inout metadata_t meta) { apply { } }

control BaselineDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.ethernet);
        packet.emit(hdr.ipv4);
        packet.emit(hdr.udp);
        packet.emit(hdr.inca);
        packet.emit(hdr.first);
        packet.emit(hdr.second);
    }
}

V1Switch(BaselineParser(), NoVerify(), BaselineIngress(), BaselineEgress(), NoCompute(), BaselineDeparser()) main;
