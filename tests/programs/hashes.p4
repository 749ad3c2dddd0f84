// Every hash algorithm over fields, constants, wide and variable-length inputs; checksums, verified and updated, with and without payload.
#include <core.p4>
#include <v1model.p4>

header data_t {
    bit<3>      a;
    bit<13>     b;
    bit<32>     c;
    bit<48>     d;
    bit<128>    e;
    bit<16>     sum;
}

header tail_t {
    bit<8>      length;
    bit<8>      kind;
    bit<16>     sum;
    varbit<96>  more;
}

header out_t {
    bit<16> crc16;
    bit<32> crc32;
    bit<16> csum16;
    bit<16> xor16;
    bit<32> identity;
    bit<16> part16;
    bit<32> based;
    bit<64> wide;
    bit<16> bad;
    bit<16> payload;
    bit<16> other;
}

struct headers_t {
    data_t data;
    tail_t tail;
    out_t  res;
}

struct metadata_t {
    bit<7>  odd;
    bit<16> part;
}

parser MyParse(packet_in packet, out headers_t h, inout metadata_t m, inout standard_metadata_t s) {
    state start {
        packet.extract(h.data);
        transition select(h.data.a) {
            0: accept;
            default: tail;
        }
    }
    state tail {
        packet.extract(h.tail, (bit<32>)(packet.lookahead<bit<8>>()[3:0] ++ 3w0));
        transition accept;
    }
}

control MyVerify(inout headers_t h, inout metadata_t m) {
    apply {
        verify_checksum(h.data.b > 2, { h.data.a, h.data.b, h.data.c, h.data.d }, h.data.sum, HashAlgorithm.csum16);
        verify_checksum_with_payload(h.tail.isValid() && h.tail.kind == 1, { h.tail.length, h.tail.kind }, h.tail.sum,
            HashAlgorithm.csum16);
    }
}

control MyIngress(inout headers_t h, inout metadata_t m, inout standard_metadata_t s) {
    apply {
        s.egress_spec = 4;
        if (!h.data.isValid()) {
            mark_to_drop(s);
            return;
        }
        h.res.setValid();
        hash(h.res.crc16, HashAlgorithm.crc16, 16w0, { h.data.a, h.data.b, h.data.c }, 32w0x10000);
        hash(h.res.crc32, HashAlgorithm.crc32, 32w0, { h.data.c, h.data.d, 16w0x1234, h.data.e }, 64w0x100000000);
        hash(h.res.csum16, HashAlgorithm.csum16, 16w0, { h.data.e, h.data.d, 8w7 }, 32w0x10000);
        hash(h.res.xor16, HashAlgorithm.xor16, 16w0, { h.data.d, h.data.b, 3w1 }, 32w0x10000);
        hash(h.res.identity, HashAlgorithm.identity, 32w0, { h.data.b, h.data.a, h.data.d }, 64w0x100000000);
        hash(h.res.part16, HashAlgorithm.crc16_custom, 16w100, { h.data.d }, 16w200);
        hash(h.res.based, HashAlgorithm.crc32_custom, 32w5, { h.data.e, h.data.e, h.data.a }, 32w1000);
        hash(h.res.wide, HashAlgorithm.crc32, 64w7, { h.data.e[99:3] }, 64w0x7fffffff);
        m.odd = h.data.c[20:14];
        hash(m.part, HashAlgorithm.crc16, 16w3, { m.odd, h.data.a }, 16w31);
        h.res.other = m.part;
        h.res.bad[0:0] = s.checksum_error;
        if (h.tail.isValid()) {
            h.res.bad[15:8] = h.tail.kind;
        }
    }
}

control MyEgress(inout headers_t h, inout metadata_t m, inout standard_metadata_t s) { apply {} }

control MyCompute(inout headers_t h, inout metadata_t m) {
    apply {
        update_checksum(h.data.isValid(), { h.data.a, h.data.b, h.data.c, h.data.d, h.data.e }, h.data.sum,
            HashAlgorithm.csum16);
        update_checksum_with_payload(h.res.isValid(), { h.res.crc16, h.res.crc32, h.data.e }, h.res.payload,
            HashAlgorithm.csum16);
        update_checksum(h.tail.isValid() && h.tail.kind == 2, { h.tail.length, h.tail.kind, h.tail.more }, h.tail.sum,
            HashAlgorithm.crc16);
    }
}

control MyDeparse(packet_out packet, in headers_t h) {
    apply {
        packet.emit(h.data);
        packet.emit(h.tail);
        packet.emit(h.res);
    }
}

V1Switch(MyParse(), MyVerify(), MyIngress(), MyEgress(), MyCompute(), MyDeparse()) main;
