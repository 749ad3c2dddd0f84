// Checksums and back to bytes.

control IncaVerifyChecksum(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control IncaComputeChecksum(inout headers_t hdr, inout metadata_t meta) {
    apply {
        // Forwarded packets have theirs updated with the TTL; copies of sums and results are new packets.
        update_checksum(meta.event >= EVENT_COMPLETED,
            { hdr.ipv4.version_ihl_diffserv, hdr.ipv4.total_length, hdr.ipv4.fragmentation,
              hdr.ipv4.ttl, hdr.ipv4.protocol, hdr.ipv4.src_addr, hdr.ipv4.dst_addr },
            hdr.ipv4.checksum, HashAlgorithm.csum16);
    }
}

control IncaDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.packet_in);
        packet.emit(hdr.ethernet);
        packet.emit(hdr.arp);
        packet.emit(hdr.ipv4);
        packet.emit(hdr.udp);
        packet.emit(hdr.inca);
#define OP(part) packet.emit(hdr.words_##part);
        FOR_EACH_HEADER(OP)
#undef OP
    }
}
