// Checksums with conditions and payload, hashes, signed and saturating arithmetic, exit, nested conditions in actions.
#include <core.p4>
#include <v1model.p4>

header ip_t { bit<4> version; bit<4> ihl; bit<8> tos; bit<16> len; bit<32> words; bit<16> checksum; bit<32> src; bit<32> dst; }
header udp_t { bit<16> sport; bit<16> dport; bit<16> len; bit<16> checksum; }
header calc_t { bit<8> op; int<8> a; int<8> b; bit<8> c; bit<8> d; bit<16> out16; bit<32> out32; bit<64> out64; bit<8> seen; }
struct headers_t { ip_t ip; udp_t udp; calc_t calc; }
struct meta_t { bit<16> x; }

parser P(packet_in p, out headers_t h, inout meta_t m, inout standard_metadata_t s) {
    state start { p.extract(h.ip); transition select(h.ip.tos) { 1: udp; 2: calc; default: accept; } }
    state udp { p.extract(h.udp); transition accept; }
    state calc { p.extract(h.calc); transition accept; }
}
control V(inout headers_t h, inout meta_t m) {
    apply {
        verify_checksum(h.ip.version == 4, {h.ip.version, h.ip.ihl, h.ip.tos, h.ip.len, h.ip.words, h.ip.src, h.ip.dst}, h.ip.checksum, HashAlgorithm.csum16);
    }
}
control I(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    action nested(bit<8> limit) {
        if (h.calc.c > limit) {
            if (h.calc.d > limit) { h.calc.out16 = 3; } else { h.calc.out16 = 2; }
            h.calc.out32 = 1;
        } else if (h.calc.d > limit) { h.calc.out16 = 1; }
        else { return; }
        h.calc.out64 = 5;
    }
    table nest { key = { h.calc.op: exact; } actions = { nested; } default_action = nested(10); }
    action stop() { exit; }
    apply {
        s.egress_spec = 1;
        if (s.checksum_error == 1) { s.egress_spec = 2; }
        if (h.calc.isValid()) {
            h.calc.seen = 0;
            if (h.calc.op == 1) { h.calc.out16 = (bit<16>)(bit<8>)(h.calc.a + h.calc.b); }
            else if (h.calc.op == 2) { h.calc.out16 = (bit<16>)(bit<8>)(h.calc.a |+| h.calc.b); }
            else if (h.calc.op == 3) { h.calc.out16 = (bit<16>)(bit<8>)(h.calc.a |-| h.calc.b); }
            else if (h.calc.op == 4) { h.calc.out16 = (bit<16>)(h.calc.c |+| h.calc.d); }
            else if (h.calc.op == 5) { h.calc.out16 = (bit<16>)(h.calc.c |-| h.calc.d); }
            else if (h.calc.op == 6) { h.calc.out16 = (bit<16>)(bit<8>)(h.calc.a >> 2); }
            else if (h.calc.op == 7) { if (h.calc.a < h.calc.b) { h.calc.out16 = 1; } else { h.calc.out16 = 0; } }
            else if (h.calc.op == 8) { h.calc.out16 = h.calc.c ++ h.calc.d; h.calc.out32[15:8] = h.calc.c; h.calc.out64[63:60] = h.calc.d[3:0]; }
            else if (h.calc.op == 9) { h.calc.out32 = (bit<32>)(int<32>)h.calc.a; }
            else if (h.calc.op == 10) { hash(h.calc.out32, HashAlgorithm.crc32, 32w100, {h.ip.src, h.ip.dst, h.calc.c}, 32w1000); }
            else if (h.calc.op == 11) { hash(h.calc.out16, HashAlgorithm.crc16, 16w0, {h.calc.c, h.calc.d}, 16w0xFFFF); }
            else if (h.calc.op == 12) { nest.apply(); }
            else if (h.calc.op == 13) { h.calc.out16 = 1; stop(); h.calc.out16 = 2; }
            else if (h.calc.op == 14) { random(h.calc.out32, 10, 20); }
            else if (h.calc.op == 16) { digest<bit<8>>(1, h.calc.c); digest<tuple<bit<8>, bit<32>>>(1, {h.calc.c, h.ip.src}); }
            else if (h.calc.op == 17) { assert(h.calc.c != 0); h.calc.out16 = 5; }
            h.calc.seen = 1;
        }
    }
}
control E(inout headers_t h, inout meta_t m, inout standard_metadata_t s) { apply { } }
control C(inout headers_t h, inout meta_t m) {
    apply {
        update_checksum(h.ip.version == 4, {h.ip.version, h.ip.ihl, h.ip.tos, h.ip.len, h.ip.words, h.ip.src, h.ip.dst}, h.ip.checksum, HashAlgorithm.csum16);
        update_checksum_with_payload(h.udp.isValid(), {h.ip.src, h.ip.dst, h.udp.sport, h.udp.dport, h.udp.len}, h.udp.checksum, HashAlgorithm.csum16);
    }
}
control D(packet_out p, in headers_t h) { apply { p.emit(h); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
