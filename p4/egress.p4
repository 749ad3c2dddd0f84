// Each copy gets the addresses of its receiver.

control IncaEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    @name(".replica_misses") counter<bit<1>>(1, CounterType.packets) replica_misses;

    action address(mac_addr_t dst_mac, ipv4_addr_t dst_ip, bit<16> dst_port, bit<16> member) {
        hdr.ethernet.dst_addr = dst_mac;
        hdr.ipv4.dst_addr = dst_ip;
        hdr.udp.dst_port = dst_port;
        hdr.inca.member = member;
    }

    // A result (or a probe's reply) to a host or to a child switch.
    @name(".to_child")
    action to_child(mac_addr_t dst_mac, ipv4_addr_t dst_ip, bit<16> dst_port, bit<16> member) {
        address(dst_mac, dst_ip, dst_port, member);
    }

    // A sum leaves as one packet per plane, so that no packet grows. Its words are read here, where each copy needs one plane alone. They can
    // have changed since the ingress only if this sequence already has its result; then the parent has both planes and takes no more of it.
    @name(".to_parent_low")
    action to_parent_low(mac_addr_t dst_mac, ipv4_addr_t dst_ip, bit<16> dst_port, bit<16> member) {
        address(dst_mac, dst_ip, dst_port, member);
        hdr.inca.plane = 0;
        meta.index = meta.word_index;
#define OP(part, k) accumulator_low.read(WORD(part, k), meta.index); NEXT
        FOR_EACH_WORD(OP)
#undef OP
    }

    @name(".to_parent_high")
    action to_parent_high(mac_addr_t dst_mac, ipv4_addr_t dst_ip, bit<16> dst_port, bit<16> member) {
        address(dst_mac, dst_ip, dst_port, member);
        hdr.inca.plane = 1;
        meta.index = meta.word_index;
#define OP(part, k) accumulator_high.read(WORD(part, k), meta.index); NEXT
        FOR_EACH_WORD(OP)
#undef OP
    }

    @name(".unknown_replica")
    action unknown_replica() {
        replica_misses.count(0);
        mark_to_drop(standard_metadata);
    }

    // Receivers by replica id and port. Filled by the controller, one entry per child and two per parent.
    @name(".replica")
    table replica {
        key = {
            meta.replica: exact @name("replica");
            standard_metadata.egress_port: exact @name("egress_port");
        }
        actions = { to_child; to_parent_low; to_parent_high; unknown_replica; }
        default_action = unknown_replica();
        size = 16384;
    }

    apply {
        if (standard_metadata.egress_port == CPU_PORT) {
            hdr.packet_in.setValid();
            hdr.packet_in.ingress_port = standard_metadata.ingress_port;
            hdr.packet_in.reason = meta.reason;
        } else if (meta.event >= EVENT_COMPLETED) {
            if (standard_metadata.egress_rid != 0) {
                meta.replica = standard_metadata.egress_rid;
            }
            replica.apply();
        }
    }
}
