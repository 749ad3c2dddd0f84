// Numbers of the protocol (docs/protocol.md) and the sizes of what a switch keeps.
// wire/ holds the same numbers for the hosts; a test compares the two.

#ifndef INCA_CONSTANTS
#define INCA_CONSTANTS

const bit<16> ETHERTYPE_IPV4 = 0x0800;
const bit<16> ETHERTYPE_ARP  = 0x0806;
const bit<16> ETHERTYPE_LLDP = 0x88CC;

const bit<8> IP_PROTOCOL_TCP = 6;
const bit<8> IP_PROTOCOL_UDP = 17;
const bit<8> RESULT_TTL      = 64;
// Version 4, five words of header; any bit of the fragment field but "don't fragment".
const bit<16> IPV4_WITHOUT_OPTIONS = 0x4500;      // version and header length; DiffServ 0
const bit<16> IPV4_VERSION_IHL     = 0xFF00;
const bit<32> IPV4_FRAGMENTED      = 0x0000BFFF;  // more fragments, or an offset

const bit<16> ARP_HARDWARE_ETHERNET = 1;
const bit<16> ARP_REQUEST = 1;
const bit<16> ARP_REPLY   = 2;

// Ports of the switch itself. 255 is what BMv2 is started with (--cpu-port 255).
const bit<9> CPU_PORT = 255;

const bit<16> INCA_UDP_PORT = 18766;
const bit<8>  INCA_VERSION  = 1;

const bit<8> OPCODE_CONTRIBUTION = 1;
const bit<8> OPCODE_PARTIAL      = 2;
const bit<8> OPCODE_RESULT       = 3;
const bit<8> OPCODE_PROBE        = 4;
const bit<8> OPCODE_PROBE_REPLY  = 5;
const bit<8> OPCODE_ANNOUNCE     = 6;

// 0x04, a contribution with NaN or infinities, is merged like any other and needs no name here.
const bit<8> FLAG_MISMATCH  = 0x01;
const bit<8> FLAG_RANGE     = 0x02;
const bit<8> FLAG_OVERFLOW  = 0x08;
const bit<8> FLAG_DONE      = 0x80;
// What a sender may set; everything else is ignored.
const bit<8> FLAGS_OF_SENDERS = 0x0F;

const bit<8>  PLANE_BOTH    = 2;
const bit<16> PARENT_MEMBER = 0xFFFF;

const bit<16> EXP_MAX_OF_ZERO = 0;
const bit<16> EXP_MIN_OF_ZERO = 0xFFFF;

// A word is a vector register of 2048 bits: BMv2 works on all its lanes at the cost of one operation.
#define WORD_BITS 2048
#define MAX_WORDS 32
const bit<8> WORD_BYTES_LOG2 = 8;

// Header lengths in bytes.
const bit<32> ETHERNET_BYTES = 14;
const bit<16> IPV4_BYTES = 20;
const bit<16> UDP_BYTES  = 8;
const bit<16> INCA_BYTES = 40;

// What a switch has room for: slots, and words of payload in all of them together.
#define SLOTS 4096
#define SLOT_WORDS 32768
typedef bit<12> slot_index_t;
typedef bit<15> word_index_t;

// Why a packet went to the controller (packet_in.reason).
const bit<7> REASON_LINK_PROBE = 1;
const bit<7> REASON_ARP        = 2;
const bit<7> REASON_ANNOUNCE   = 3;

// What became of a packet: indices of the counter `events`, one for each packet.
#define EVENTS 64
const bit<32> EVENT_NONE             = 0;
// Dropped, and why.
const bit<32> DROP_PARSER_ERROR      = 1;
const bit<32> DROP_BAD_LENGTH        = 2;
const bit<32> DROP_BAD_VERSION       = 3;
const bit<32> DROP_UNKNOWN_TREE      = 4;
const bit<32> DROP_STALE_GENERATION  = 5;
const bit<32> DROP_BAD_SLOT          = 6;
const bit<32> DROP_BAD_FORMAT        = 7;
const bit<32> DROP_NOT_ADMITTED      = 8;
const bit<32> DROP_BAD_OPCODE        = 9;
const bit<32> DROP_BAD_SEQUENCE      = 10;
const bit<32> DROP_DUPLICATE         = 11;
const bit<32> DROP_RESEND_LIMITED    = 12;
const bit<32> DROP_RESULT_IGNORED    = 13;
const bit<32> DROP_REPLAY_MISFIT     = 14;
const bit<32> DROP_NO_ROUTE          = 15;
const bit<32> DROP_TTL_EXPIRED       = 16;
const bit<32> DROP_ARP_UNKNOWN       = 17;
const bit<32> DROP_UNKNOWN_ETHERTYPE = 18;
const bit<32> DROP_FORGED_SOURCE     = 19;
// Taken in by a slot: nothing of it goes on.
const bit<32> EVENT_CONTRIBUTION     = 31;
// Sent on as it is.
const bit<32> EVENT_FORWARDED        = 32;
const bit<32> EVENT_TO_CONTROLLER    = 33;
const bit<32> EVENT_FROM_CONTROLLER  = 34;
const bit<32> EVENT_ARP_REPLY        = 35;
// Turned into a new packet, which gets its addresses in the egress.
const bit<32> EVENT_COMPLETED        = 48;
const bit<32> EVENT_REPLAY           = 49;
const bit<32> EVENT_RESEND           = 50;
const bit<32> EVENT_RESULT           = 51;
const bit<32> EVENT_PROBE            = 52;

#endif
