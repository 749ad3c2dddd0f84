// Every operator, signed and not, saturating, narrow and wide. The frame is the operands; the results follow them.
#include <core.p4>
#include <v1model.p4>

header operands_t {
    bit<8>   a8;
    bit<8>   b8;
    int<8>   s8;
    int<8>   t8;
    bit<16>  a16;
    bit<16>  b16;
    int<32>  s32;
    int<32>  t32;
    bit<64>  a64;
    bit<64>  b64;
    int<72>  s72;
    int<72>  t72;
    bit<200> a200;
    bit<200> b200;
}

header results_t {
    bit<8>   add8;
    bit<8>   sat_add8;
    bit<8>   sat_sub8;
    int<8>   sadd8;
    int<8>   ssub8;
    int<8>   smul8;
    int<8>   neg8;
    int<8>   ssat_add8;
    int<8>   ssat_sub8;
    bit<8>   xor8;
    bit<8>   cut8;
    bit<16>  mul16;
    bit<16>  shl16;
    bit<16>  shr16;
    bit<16>  concat16;
    bit<16>  cond16;
    int<32>  sadd32;
    int<32>  smul32;
    int<32>  sshr32;
    int<32>  sshl32;
    int<32>  ssat_add32;
    bit<32>  cast32;
    bit<64>  add64;
    bit<64>  sub64;
    bit<64>  mul64;
    bit<64>  sat_sub64;
    bit<64>  shr64;
    int<72>  sadd72;
    int<72>  ssat_sub72;
    int<72>  sshr72;
    bit<200> add200;
    bit<200> sub200;
    bit<200> mul200;
    bit<200> xor200;
    bit<200> not200;
    bit<200> shl200;
    bit<200> shr200;
    bit<200> sat200;
    bit<24>  slice24;
    bit<8>   compare;
    bit<8>   scompare;
    bit<48>  sext48;
    bit<16>  small;
}

struct headers_t {
    operands_t ops;
    results_t  res;
}

struct metadata_t {
    bit<5>  a5;
    bit<13> a13;
    int<7>  s7;
    bool    flag;
}

parser MyParse(packet_in packet, out headers_t h, inout metadata_t m, inout standard_metadata_t s) {
    state start {
        packet.extract(h.ops);
        transition accept;
    }
}

control MyVerify(inout headers_t h, inout metadata_t m) { apply {} }

control MyIngress(inout headers_t h, inout metadata_t m, inout standard_metadata_t s) {
    apply {
        s.egress_spec = 2;
        if (!h.ops.isValid()) {
            exit;
        }
        h.res.setValid();
        h.res.add8 = h.ops.a8 + h.ops.b8;
        h.res.sat_add8 = h.ops.a8 |+| h.ops.b8;
        h.res.sat_sub8 = h.ops.a8 |-| h.ops.b8;
        h.res.sadd8 = h.ops.s8 + h.ops.t8;
        h.res.ssub8 = h.ops.s8 - h.ops.t8;
        h.res.smul8 = h.ops.s8 * h.ops.t8;
        h.res.neg8 = -h.ops.s8;
        h.res.ssat_add8 = h.ops.s8 |+| h.ops.t8;
        h.res.ssat_sub8 = h.ops.s8 |-| h.ops.t8;
        h.res.xor8 = h.ops.a8 ^ (h.ops.b8 >> 3);
        h.res.cut8 = h.ops.a8[7:2] ++ h.ops.b8[1:0];
        h.res.mul16 = h.ops.a16 * h.ops.b16;
        h.res.shl16 = h.ops.a16 << (h.ops.b8 & 0x1f);
        h.res.shr16 = h.ops.a16 >> (h.ops.b8 & 0x1f);
        h.res.concat16 = h.ops.a8[3:0] ++ h.ops.b8 ++ h.ops.a8[7:4];
        h.res.cond16 = h.ops.a16 > h.ops.b16 ? h.ops.a16 - h.ops.b16 : h.ops.b16 - h.ops.a16;
        h.res.sadd32 = h.ops.s32 + h.ops.t32;
        h.res.smul32 = h.ops.s32 * h.ops.t32;
        h.res.sshr32 = h.ops.s32 >> (h.ops.a8 & 0x3f);
        h.res.sshl32 = h.ops.s32 << (h.ops.a8 & 0x3f);
        h.res.ssat_add32 = h.ops.s32 |+| h.ops.t32;
        h.res.cast32 = (bit<32>)h.ops.t32;
        h.res.add64 = h.ops.a64 + h.ops.b64;
        h.res.sub64 = h.ops.a64 - h.ops.b64;
        h.res.mul64 = h.ops.a64 * h.ops.b64;
        h.res.sat_sub64 = h.ops.a64 |-| h.ops.b64;
        h.res.shr64 = h.ops.a64 >> (h.ops.a8 & 0x7f);
        h.res.sadd72 = h.ops.s72 + h.ops.t72;
        h.res.ssat_sub72 = h.ops.s72 |-| h.ops.t72;
        h.res.sshr72 = h.ops.s72 >> (h.ops.a8 & 0x7f);
        h.res.add200 = h.ops.a200 + h.ops.b200;
        h.res.sub200 = h.ops.a200 - h.ops.b200;
        h.res.mul200 = h.ops.a200 * h.ops.b200;
        h.res.xor200 = (h.ops.a200 & h.ops.b200) ^ (h.ops.a200 | 0x55);
        h.res.not200 = ~h.ops.a200;
        h.res.shl200 = h.ops.a200 << h.ops.a8;
        h.res.shr200 = h.ops.a200 >> h.ops.b8;
        h.res.sat200 = h.ops.a200 |+| h.ops.b200;
        h.res.slice24 = h.ops.a200[100:77];
        h.res.compare = (bit<1>)(h.ops.a8 < h.ops.b8) ++ (bit<1>)(h.ops.a16 <= h.ops.b16) ++ (bit<1>)(h.ops.a64 > h.ops.b64)
            ++ (bit<1>)(h.ops.a200 >= h.ops.b200) ++ (bit<1>)(h.ops.a8 == h.ops.b8) ++ (bit<1>)(h.ops.a200 != h.ops.b200)
            ++ (bit<1>)(h.ops.a64 == h.ops.b64) ++ (bit<1>)(h.ops.a8 != 0 && h.ops.b8 != 0 || h.ops.a16 == 0);
        h.res.scompare = (bit<1>)(h.ops.s8 < h.ops.t8) ++ (bit<1>)(h.ops.s32 <= h.ops.t32) ++ (bit<1>)(h.ops.s72 > h.ops.t72)
            ++ (bit<1>)(h.ops.s72 >= h.ops.t72) ++ (bit<1>)(h.ops.s8 == h.ops.t8) ++ (bit<1>)(h.ops.s32 != h.ops.t32)
            ++ (bit<1>)(h.ops.s8 < 0) ++ (bit<1>)(h.ops.s72 < -5);
        h.res.sext48 = (bit<48>)(int<48>)h.ops.s8;
        h.ops.a200[31:16] = h.ops.b16;
        m.a5 = h.ops.a8[4:0] + 3;
        m.a13 = (bit<13>)h.ops.a16 * 5;
        m.s7 = (int<7>)h.ops.s8 - 1;
        m.flag = m.s7 > 3;
        h.res.small = m.a5 ++ m.a13[9:0] ++ (bit<1>)m.flag;
    }
}

control MyEgress(inout headers_t h, inout metadata_t m, inout standard_metadata_t s) { apply {} }

control MyCompute(inout headers_t h, inout metadata_t m) { apply {} }

control MyDeparse(packet_out packet, in headers_t h) {
    apply {
        packet.emit(h.ops);
        packet.emit(h.res);
    }
}

V1Switch(MyParse(), MyVerify(), MyIngress(), MyEgress(), MyCompute(), MyDeparse()) main;
