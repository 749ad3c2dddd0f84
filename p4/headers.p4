// Headers on the wire and the metadata that travels with a packet through the pipeline.

#ifndef INCA_HEADERS
#define INCA_HEADERS

typedef bit<48> mac_addr_t;
typedef bit<32> ipv4_addr_t;
typedef bit<9>  port_t;
typedef bit<WORD_BITS> word_t;

@controller_header("packet_in")
header packet_in_t {
    port_t ingress_port;
    bit<7> reason;
}

@controller_header("packet_out")
header packet_out_t {
    port_t egress_port;
    bit<7> padding;
}

header ethernet_t {
    mac_addr_t dst_addr;
    mac_addr_t src_addr;
    bit<16>    ether_type;
}

header arp_t {
    bit<16>     hardware_type;
    bit<16>     protocol_type;
    bit<8>      hardware_length;
    bit<8>      protocol_length;
    bit<16>     operation;
    mac_addr_t  sender_mac;
    ipv4_addr_t sender_ip;
    mac_addr_t  target_mac;
    ipv4_addr_t target_ip;
}

header ipv4_t {
    bit<16>     version_ihl_diffserv;  // what is used together is one field: BMv2 pays for each
    bit<16>     total_length;
    bit<32>     fragmentation;  // identification, flags, offset
    bit<8>      ttl;
    bit<8>      protocol;
    bit<16>     checksum;
    ipv4_addr_t src_addr;
    ipv4_addr_t dst_addr;
}

header udp_t {
    bit<16> src_port;
    bit<16> dst_port;
    bit<16> length;
    bit<16> checksum;
}

// docs/protocol.md, "Header".
header inca_t {
    bit<8>  version;
    bit<8>  opcode;
    bit<8>  flags;
    bit<8>  format;
    bit<16> tree_id;
    bit<16> member;
    bit<32> generation;
    bit<32> slot;
    bit<32> sequence;
    bit<32> tag;
    bit<8>  plane;
    bit<8>  words;
    bit<16> contributions;
    bit<16> exp_max;
    bit<16> exp_min;
    bit<64> bias;
}

#include "words.p4"

struct headers_t {
    packet_in_t  packet_in;
    ethernet_t   ethernet;
    arp_t        arp;
    ipv4_t       ipv4;
    udp_t        udp;
    inca_t       inca;
    // The payload: narrow words from and to hosts and downwards, one plane of wide lanes upwards.
    WORDS
}

// What a slot is at: generation ++ sequence ++ tag ++ words ++ flags. Compared with a packet as one number in the usual case.
typedef bit<112> operation_t;
#define OPERATION_GENERATION meta.operation[111:80]
#define OPERATION_SEQUENCE   meta.operation[79:48]
#define OPERATION_TAG        meta.operation[47:16]
#define OPERATION_WORDS      meta.operation[15:8]
#define OPERATION_FLAGS      meta.operation[7:0]

// Contributions inside ++ the bits of the children they came from.
typedef bit<80> arrived_t;

// By how many bits which of the two is shifted when a packet meets one plane of the accumulator.
struct alignment_t {
    bit<8> shift_packet;
    bit<8> shift_accumulator;
}

// Every field is cleared for every packet and copied with every copy, at a price: none is kept here that can be computed where it
// is used, and some serve for more than one thing.
struct metadata_t {
    bit<32> event;             // what became of the packet: EVENT_* or DROP_*; 0 while nothing is decided
    bit<7>  reason;            // why it goes to the controller
    bit<16> replica;           // the receiver of a single copy
    bit<32> scratch;           // one number for a moment; ports that tell flows apart, source ++ destination
    bit<16> guard;             // the tree's guard bits, once a sum is complete
    // The slot: where its scalars are, where its words begin, and what it is at.
    slot_index_t slot_index;
    word_index_t word_index;
    operation_t  operation;
    // Scalars of the slot: who has contributed to which plane, and the rest for the plane at hand. Once all have contributed, both planes
    // have the same.
    arrived_t    low_arrived;
    arrived_t    high_arrived;
    bit<64>      bias;
    bit<16>      exp_max;
    bit<16>      exp_min;
    // How the packet meets the low plane (or both at once) and the high one: ALIGN_*.
    bit<8>       how_low;
    bit<8>       how_high;
    alignment_t  low;
    alignment_t  high;
    word_index_t index;        // of the word at hand
    word_t       to_offset;    // what turns the lanes of a finished sum into offset binary
    word_t       magnitudes;   // OR of the magnitudes of a finished sum
    bit<64>      widest;       // the same, folded to one lane
}

#endif
