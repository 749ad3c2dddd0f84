// Ordinary traffic: IPv4 between hosts, ARP answered by the switch, and what goes to and comes from the controller.

control ToController(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata)(bit<7> reason) {
    apply {
        meta.reason = reason;
        meta.event = EVENT_TO_CONTROLLER;
        standard_metadata.egress_spec = CPU_PORT;
    }
}

control Arp(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    ToController(REASON_ARP) to_controller;

    // Hosts attached to this switch, filled by the controller when it learns one. A sender that is not here (new, moved, or
    // with another MAC) goes to the controller.
    @name(".arp_sender")
    table arp_sender {
        key = {
            standard_metadata.ingress_port: exact @name("ingress_port");
            hdr.arp.sender_mac: exact @name("sender_mac");
            hdr.arp.sender_ip: exact @name("sender_ip");
        }
        actions = { NoAction; }
        default_action = NoAction();
        size = 4096;
    }

    @name(".reply")
    action reply(mac_addr_t mac) {
        hdr.ethernet.dst_addr = hdr.arp.sender_mac;
        hdr.ethernet.src_addr = mac;
        hdr.arp.operation = ARP_REPLY;
        hdr.arp.target_mac = hdr.arp.sender_mac;
        hdr.arp.sender_mac = mac;
        meta.scratch = hdr.arp.target_ip;
        hdr.arp.target_ip = hdr.arp.sender_ip;
        hdr.arp.sender_ip = meta.scratch;
        standard_metadata.egress_spec = standard_metadata.ingress_port;
        meta.event = EVENT_ARP_REPLY;
    }

    @name(".unknown")
    action unknown() {
        meta.event = DROP_ARP_UNKNOWN;
    }

    // Every address of the fabric: hosts, service addresses, the announce address. Filled by the controller, so that no ARP
    // is ever flooded.
    @name(".arp_proxy")
    table arp_proxy {
        key = { hdr.arp.target_ip: exact @name("target_ip"); }
        actions = { reply; unknown; }
        default_action = unknown();
        size = 16384;
    }

    apply {
        if (hdr.arp.hardware_type != ARP_HARDWARE_ETHERNET || hdr.arp.protocol_type != ETHERTYPE_IPV4
            || standard_metadata.parser_error != error.NoError) {
            unknown();
        } else if (!arp_sender.apply().hit) {
            to_controller.apply(hdr, meta, standard_metadata);
        } else if (hdr.arp.operation == ARP_REQUEST && hdr.arp.sender_ip != hdr.arp.target_ip) {
            arp_proxy.apply();
        } else {
            unknown();
        }
    }
}

control Ipv4Forwarding(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    @name(".forward")
    action forward(port_t port) {
        standard_metadata.egress_spec = port;
        hdr.ipv4.ttl = hdr.ipv4.ttl - 1;
        // The TTL is the high byte of a 16-bit unit, so the one's complement checksum grows by 0x0100 (RFC 1624); the
        // carry wraps around. Right with IPv4 options too.
        hdr.ipv4.checksum = hdr.ipv4.checksum + 0x0100;
        if (hdr.ipv4.checksum < 0x0100) {
            hdr.ipv4.checksum = hdr.ipv4.checksum + 1;
        }
        meta.event = EVENT_FORWARDED;
    }

    // Routes to hosts and to other switches' service addresses; equal-cost next hops are members of one selector group.
    // Filled by the controller.
    @name(".ipv4_lpm")
    table ipv4_lpm {
        key = {
            hdr.ipv4.dst_addr: lpm @name("dst_addr");
            hdr.ipv4.src_addr: selector;
            hdr.ipv4.protocol: selector;
            meta.scratch: selector;  // ports
        }
        actions = { forward; @defaultonly NoAction; }
        size = 16384;
        @name(".ecmp") implementation = action_selector(HashAlgorithm.crc16, 4096, 16);
    }

    // Service addresses of all switches. Filled by the controller.
    @name(".switch_address")
    table switch_address {
        key = { hdr.ipv4.src_addr: exact @name("src_addr"); }
        actions = { NoAction; }
        default_action = NoAction();
        size = 1024;
    }

    // Ports that lead to switches. Filled by the controller.
    @name(".link")
    table link {
        key = { standard_metadata.ingress_port: exact @name("ingress_port"); }
        actions = { NoAction; }
        default_action = NoAction();
        size = 512;
    }

    apply {
        if (hdr.ipv4.ttl <= 1) {
            meta.event = DROP_TTL_EXPIRED;
        } else if (switch_address.apply().hit) {
            // Results, which hosts believe for their source.
            if (!link.apply().hit) {
                meta.event = DROP_FORGED_SOURCE;
            }
        }
        if (meta.event == EVENT_NONE) {
            if (hdr.udp.isValid()) {
                meta.scratch = hdr.udp.src_port ++ hdr.udp.dst_port;
            }
            // A table with a selector has no default action of its own on this target.
            if (!ipv4_lpm.apply().hit) {
                meta.event = DROP_NO_ROUTE;
            }
        }
    }
}
