// The additions, one word at a time, all lanes at once (docs/number-formats.md, "Alignment").

#ifndef INCA_ACCUMULATE
#define INCA_ACCUMULATE

// How a packet's lanes meet the accumulator. Keys of the tables accumulate_low and accumulate_high.
const bit<8> ALIGN_NONE          = 0;  // nothing to add
const bit<8> ALIGN_CLEAR         = 1;  // first contribution, all zeros
const bit<8> ALIGN_STORE         = 2;  // first non-zero contribution, from a host
const bit<8> ALIGN_ADD           = 3;  // from a host, at or below the accumulator's exponent: shift the packet
const bit<8> ALIGN_RAISE         = 4;  // from a host, above it: shift the accumulator
const bit<8> ALIGN_STORE_PARTIAL = 5;  // the same three from a switch: wide lanes
const bit<8> ALIGN_ADD_PARTIAL   = 6;
const bit<8> ALIGN_RAISE_PARTIAL = 7;

// `accumulator` holds the two planes of a slot's word i at 2 i and 2 i + 1. Every operand has room in each of its wide lanes,
// so nothing crosses from lane to lane.
control Accumulate(inout headers_t hdr, inout metadata_t meta)(register<word_t> accumulator) {
    word_t sum;
    bit<32> index;

#define LANES(i) hdr.low[i].lanes
#define UPDATE(plane, i, value) \
        index = meta.accumulator_index + (2 * i + plane); \
        accumulator.read(sum, index); \
        sum = value; \
        accumulator.write(index, sum);
#define REPLACE(plane, i, value) \
        index = meta.accumulator_index + (2 * i + plane); \
        sum = value; \
        accumulator.write(index, sum);

    @name(".clear_low")
    action clear_low() {
#define OP(i) REPLACE(0, i, 0)
        FOR_EACH_WORD(meta.words, OP)
#undef OP
    }

    // `mask`: the low half of every pair of lanes.
    @name(".store_low")
    action store_low(word_t mask) {
#define OP(i) REPLACE(0, i, (LANES(i) & mask) << meta.align_low.shift_packet)
        FOR_EACH_WORD(meta.words, OP)
#undef OP
    }

    @name(".add_low")
    action add_low(word_t mask) {
#define OP(i) UPDATE(0, i, sum + ((LANES(i) & mask) << meta.align_low.shift_packet))
        FOR_EACH_WORD(meta.words, OP)
#undef OP
    }

    // For formats without an exponent.
    @name(".add_low_unshifted")
    action add_low_unshifted(word_t mask) {
#define OP(i) UPDATE(0, i, sum + (LANES(i) & mask))
        FOR_EACH_WORD(meta.words, OP)
#undef OP
    }

    @name(".raise_low")
    action raise_low(word_t mask) {
#define OP(i) UPDATE(0, i, (sum >> meta.align_low.shift_accumulator) + ((LANES(i) & mask) << meta.align_low.shift_packet))
        FOR_EACH_WORD(meta.words, OP)
#undef OP
    }

    @name(".store_partial_low")
    action store_partial_low() {
#define OP(i) REPLACE(0, i, LANES(i))
        FOR_EACH_WORD(meta.words, OP)
#undef OP
    }

    @name(".add_partial_low")
    action add_partial_low() {
#define OP(i) UPDATE(0, i, sum + (LANES(i) >> meta.align_low.shift_packet))
        FOR_EACH_WORD(meta.words, OP)
#undef OP
    }

    @name(".raise_partial_low")
    action raise_partial_low() {
#define OP(i) UPDATE(0, i, (sum >> meta.align_low.shift_accumulator) + LANES(i))
        FOR_EACH_WORD(meta.words, OP)
#undef OP
    }

    // What each ALIGN_* means for a format, with its mask. Filled by the controller, once per format.
    @name(".accumulate_low")
    table accumulate_low {
        key = {
            meta.tree.format: exact @name("format");
            meta.align_low.how: exact @name("align");
        }
        actions = {
            clear_low; store_low; add_low; add_low_unshifted; raise_low;
            store_partial_low; add_partial_low; raise_partial_low; @defaultonly NoAction;
        }
        default_action = NoAction();
        size = 128;
    }

    @name(".clear_high")
    action clear_high() {
#define OP(i) REPLACE(1, i, 0)
        FOR_EACH_WORD(meta.words, OP)
#undef OP
    }

    // `mask`: the high half of every pair of lanes. It is brought down to the low half and shifted up to its place in one go:
    // meta.align_high.shift_packet is lane_bits less what the low plane is shifted up.
    @name(".store_high")
    action store_high(word_t mask) {
#define OP(i) REPLACE(1, i, (LANES(i) & mask) >> meta.align_high.shift_packet)
        FOR_EACH_WORD(meta.words, OP)
#undef OP
    }

    @name(".add_high")
    action add_high(word_t mask) {
#define OP(i) UPDATE(1, i, sum + ((LANES(i) & mask) >> meta.align_high.shift_packet))
        FOR_EACH_WORD(meta.words, OP)
#undef OP
    }

    @name(".raise_high")
    action raise_high(word_t mask) {
#define OP(i) UPDATE(1, i, (sum >> meta.align_high.shift_accumulator) + ((LANES(i) & mask) >> meta.align_high.shift_packet))
        FOR_EACH_WORD(meta.words, OP)
#undef OP
    }

    @name(".store_partial_high")
    action store_partial_high() {
#define OP(i) REPLACE(1, i, LANES(i))
        FOR_EACH_WORD(meta.words, OP)
#undef OP
    }

    @name(".add_partial_high")
    action add_partial_high() {
#define OP(i) UPDATE(1, i, sum + (LANES(i) >> meta.align_high.shift_packet))
        FOR_EACH_WORD(meta.words, OP)
#undef OP
    }

    @name(".raise_partial_high")
    action raise_partial_high() {
#define OP(i) UPDATE(1, i, (sum >> meta.align_high.shift_accumulator) + LANES(i))
        FOR_EACH_WORD(meta.words, OP)
#undef OP
    }

    // As accumulate_low. Filled by the controller, once per format.
    @name(".accumulate_high")
    table accumulate_high {
        key = {
            meta.tree.format: exact @name("format");
            meta.align_high.how: exact @name("align");
        }
        actions = {
            clear_high; store_high; add_high; raise_high;
            store_partial_high; add_partial_high; raise_partial_high; @defaultonly NoAction;
        }
        default_action = NoAction();
        size = 128;
    }

    apply {
        if (meta.align_low.how != ALIGN_NONE) {
            accumulate_low.apply();
        }
        if (meta.align_high.how != ALIGN_NONE) {
            accumulate_high.apply();
        }
    }
#undef LANES
#undef UPDATE
#undef REPLACE
}

#endif
