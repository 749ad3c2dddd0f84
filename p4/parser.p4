// From bytes to headers. A frame that ends early leaves `parser_error` set; the ingress drops it before it can touch a slot.

parser IncaParser(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    bit<8> words_left;

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

    state parse_inca {
        packet.extract(hdr.inca);
        words_left = hdr.inca.words;
        transition select(words_left) {
            0: accept;
            1 .. MAX_WORDS: parse_word;
            default: accept;
        }
    }

    state parse_word {
        packet.extract(hdr.low.next);
        words_left = words_left - 1;
        transition select(words_left) {
            0: accept;
            default: parse_word;
        }
    }
}
