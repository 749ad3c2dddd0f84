// From bytes to headers. A frame that ends early leaves `parser_error` set; the ingress drops it before it can touch a slot.

parser IncaParser(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    state start {
        transition select(standard_metadata.ingress_port) {
            CPU_PORT: parse_packet_out;
            default:  parse_ethernet;
        }
    }

    state parse_packet_out {
        packet.extract(hdr.packet_out);
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
        transition select(hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.flags & 1, hdr.ipv4.fragment_offset, hdr.ipv4.protocol) {
            (4, 5, 0, 0, IP_PROTOCOL_UDP): parse_udp;
            (4, 5, 0, 0, IP_PROTOCOL_TCP): parse_tcp_ports;
            default: accept;
        }
    }

    state parse_tcp_ports {
        packet.extract(hdr.tcp_ports);
        transition accept;
    }

    state parse_udp {
        packet.extract(hdr.udp);
        transition select(hdr.udp.dst_port) {
            INCA_UDP_PORT: parse_inca;
            default: accept;
        }
    }

    // The words are a chain of states, entered as many states from its end as there are words: no counter, no loop.
    state parse_inca {
        packet.extract(hdr.inca);
        transition select(hdr.inca.words) {
            1: parse_1;
            2: parse_2;
            3: parse_3;
            4: parse_4;
            5: parse_5;
            6: parse_6;
            7: parse_7;
            8: parse_8;
            9: parse_9;
            10: parse_10;
            11: parse_11;
            12: parse_12;
            13: parse_13;
            14: parse_14;
            15: parse_15;
            16: parse_16;
            17: parse_17;
            18: parse_18;
            19: parse_19;
            20: parse_20;
            21: parse_21;
            22: parse_22;
            23: parse_23;
            24: parse_24;
            25: parse_25;
            26: parse_26;
            27: parse_27;
            28: parse_28;
            29: parse_29;
            30: parse_30;
            31: parse_31;
            32: parse_32;
            default: accept;
        }
    }

#define PARSE_WORD(n, next_state) state parse_##n { packet.extract(hdr.low.next); transition next_state; }
    PARSE_WORD(1, accept)
    PARSE_WORD(2, parse_1)
    PARSE_WORD(3, parse_2)
    PARSE_WORD(4, parse_3)
    PARSE_WORD(5, parse_4)
    PARSE_WORD(6, parse_5)
    PARSE_WORD(7, parse_6)
    PARSE_WORD(8, parse_7)
    PARSE_WORD(9, parse_8)
    PARSE_WORD(10, parse_9)
    PARSE_WORD(11, parse_10)
    PARSE_WORD(12, parse_11)
    PARSE_WORD(13, parse_12)
    PARSE_WORD(14, parse_13)
    PARSE_WORD(15, parse_14)
    PARSE_WORD(16, parse_15)
    PARSE_WORD(17, parse_16)
    PARSE_WORD(18, parse_17)
    PARSE_WORD(19, parse_18)
    PARSE_WORD(20, parse_19)
    PARSE_WORD(21, parse_20)
    PARSE_WORD(22, parse_21)
    PARSE_WORD(23, parse_22)
    PARSE_WORD(24, parse_23)
    PARSE_WORD(25, parse_24)
    PARSE_WORD(26, parse_25)
    PARSE_WORD(27, parse_26)
    PARSE_WORD(28, parse_27)
    PARSE_WORD(29, parse_28)
    PARSE_WORD(30, parse_29)
    PARSE_WORD(31, parse_30)
    PARSE_WORD(32, parse_31)
#undef PARSE_WORD
}
