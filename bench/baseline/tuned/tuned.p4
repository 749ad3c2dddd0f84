// The baseline of the data-plane benchmark, tuned for BMv2: still one 32-bit register operation per element, but a register array of
// its own for each element, indexed by the slot as it stands in the packet, and 64 elements to a header.

#include <core.p4>
#include <v1model.p4>

#define MAX_WORDS 5
#define SLOTS 64

const bit<16> ETHERTYPE_IPV4  = 0x0800;
const bit<8>  IP_PROTOCOL_UDP = 17;
const bit<16> INCA_UDP_PORT   = 18766;

// OP(w, 0) ... OP(w, 63): the elements of word w.
#define EIGHT(OP, w, a) OP(w, a##0) OP(w, a##1) OP(w, a##2) OP(w, a##3) OP(w, a##4) OP(w, a##5) OP(w, a##6) OP(w, a##7)
#define FOR_EACH_ELEMENT(OP, w) EIGHT(OP, w, 0) EIGHT(OP, w, 1) EIGHT(OP, w, 2) EIGHT(OP, w, 3) \
                                EIGHT(OP, w, 4) EIGHT(OP, w, 5) EIGHT(OP, w, 6) EIGHT(OP, w, 7)

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

#define FIELD(w, k) bit<32> e##k;
header word_t { FOR_EACH_ELEMENT(FIELD, 0) }
#undef FIELD

struct headers_t {
    ethernet_t ethernet;
    ipv4_t ipv4;
    udp_t udp;
    inca_t inca;
    word_t[MAX_WORDS] words;
}

struct metadata_t {
    bit<32> count;
    bit<32> value;
    bit<32> workers;
    bit<16> group;
}

parser BaselineParser(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    bit<8> words_left;

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
        words_left = hdr.inca.words;
        transition select(words_left) { 0: accept; default: parse_word; }
    }
    state parse_word {
        packet.extract(hdr.words.next);
        words_left = words_left - 1;
        transition select(words_left) { 0: accept; default: parse_word; }
    }
}

control BaselineIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    register<bit<32>>(SLOTS) counts;

#define REGISTER(w, k) register<bit<32>>(SLOTS) sum_##w##_##k;
    FOR_EACH_ELEMENT(REGISTER, 0)
    FOR_EACH_ELEMENT(REGISTER, 1)
    FOR_EACH_ELEMENT(REGISTER, 2)
    FOR_EACH_ELEMENT(REGISTER, 3)
    FOR_EACH_ELEMENT(REGISTER, 4)
#undef REGISTER

#define FOR_EACH_WORD(OP) \
        if (hdr.inca.words > 0) { FOR_EACH_ELEMENT(OP, 0) } \
        if (hdr.inca.words > 1) { FOR_EACH_ELEMENT(OP, 1) } \
        if (hdr.inca.words > 2) { FOR_EACH_ELEMENT(OP, 2) } \
        if (hdr.inca.words > 3) { FOR_EACH_ELEMENT(OP, 3) } \
        if (hdr.inca.words > 4) { FOR_EACH_ELEMENT(OP, 4) }

    action store() {
#define OP(w, k) sum_##w##_##k.write(hdr.inca.slot, hdr.words[w].e##k);
        FOR_EACH_WORD(OP)
#undef OP
    }

    action add() {
#define OP(w, k) \
        sum_##w##_##k.read(meta.value, hdr.inca.slot); \
        hdr.words[w].e##k = hdr.words[w].e##k + meta.value; \
        sum_##w##_##k.write(hdr.inca.slot, hdr.words[w].e##k);
        FOR_EACH_WORD(OP)
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
        packet.emit(hdr.words);
    }
}

V1Switch(BaselineParser(), NoVerify(), BaselineIngress(), BaselineEgress(), NoCompute(), BaselineDeparser()) main;
