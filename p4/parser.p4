// From bytes to headers. A frame that ends early leaves `parser_error` set; the ingress drops it before it can touch a slot.

parser IncaParser(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    state start {
        transition select(standard_metadata.ingress_port) {
            CPU_PORT: parse_packet_out;
            default:  parse_ethernet;
        }
    }

    // packet_out_t is looked at, not kept: one header less to clear for every packet.
    state parse_packet_out {
        standard_metadata.egress_spec = packet.lookahead<bit<16>>()[15:7];
        packet.advance(16);
        transition accept;
    }

    state parse_ethernet {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.ether_type) {
            ETHERTYPE_IPV4: parse_ipv4;
            ETHERTYPE_ARP:  parse_arp;
            default:        accept;
        }
    }

    state parse_arp {
        packet.extract(hdr.arp);
        transition accept;
    }

    state parse_ipv4 {
        packet.extract(hdr.ipv4);
        // Options and fragments are forwarded without a look at what follows.
        transition select(hdr.ipv4.version_ihl_diffserv, hdr.ipv4.fragmentation, hdr.ipv4.protocol) {
            (IPV4_WITHOUT_OPTIONS &&& IPV4_VERSION_IHL, 0 &&& IPV4_FRAGMENTED, IP_PROTOCOL_UDP): parse_udp;
            (IPV4_WITHOUT_OPTIONS &&& IPV4_VERSION_IHL, 0 &&& IPV4_FRAGMENTED, IP_PROTOCOL_TCP): parse_tcp;
            default: accept;
        }
    }

    // The ports are all that tells flows apart.
    state parse_tcp {
        meta.scratch = packet.lookahead<bit<32>>();
        transition accept;
    }

    state parse_udp {
        packet.extract(hdr.udp);
        transition select(hdr.udp.dst_port) {
            INCA_UDP_PORT: parse_inca;
            default: accept;
        }
    }

    // The headers that the bits of `words` name, see words.p4.
    state parse_inca {
        packet.extract(hdr.inca);
        transition select(hdr.inca.words) {
            MAX_WORDS: parse_16;
            0x10 &&& 0xF0: parse_16;
            0x08 &&& 0xF8: parse_8;
            0x04 &&& 0xFC: parse_4;
            0x02 &&& 0xFE: parse_2;
            0x01: parse_1;
            default: accept;
        }
    }

    state parse_16 {
        packet.extract(hdr.words_16);
        transition select(hdr.inca.words) {
            MAX_WORDS: parse_8;
            0x08 &&& 0x08: parse_8;
            0x04 &&& 0x04: parse_4;
            0x02 &&& 0x02: parse_2;
            0x01 &&& 0x01: parse_1;
            default: accept;
        }
    }

    state parse_8 {
        packet.extract(hdr.words_8);
        transition select(hdr.inca.words) {
            MAX_WORDS: parse_4;
            0x04 &&& 0x04: parse_4;
            0x02 &&& 0x02: parse_2;
            0x01 &&& 0x01: parse_1;
            default: accept;
        }
    }

    state parse_4 {
        packet.extract(hdr.words_4);
        transition select(hdr.inca.words) {
            MAX_WORDS: parse_2;
            0x02 &&& 0x02: parse_2;
            0x01 &&& 0x01: parse_1;
            default: accept;
        }
    }

    state parse_2 {
        packet.extract(hdr.words_2);
        transition select(hdr.inca.words) {
            MAX_WORDS: parse_1;
            0x01 &&& 0x01: parse_1;
            default: accept;
        }
    }

    state parse_1 {
        packet.extract(hdr.words_1);
        transition select(hdr.inca.words) {
            MAX_WORDS: parse_32nd;
            default: accept;
        }
    }

    state parse_32nd {
        packet.extract(hdr.words_32nd);
        transition accept;
    }
}
