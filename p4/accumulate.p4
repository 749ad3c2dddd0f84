// The additions, one word at a time, all lanes at once (docs/number-formats.md, "Alignment").

#ifndef INCA_ACCUMULATE
#define INCA_ACCUMULATE

// How a packet's lanes meet the accumulator. Keys of the tables accumulate (by ALIGN_BOTH more), accumulate_low and accumulate_high.
const bit<8> ALIGN_NONE          = 0;  // nothing to add
const bit<8> ALIGN_CLEAR         = 1;  // first contribution, all zeros
const bit<8> ALIGN_STORE         = 2;  // first non-zero contribution, from a host
const bit<8> ALIGN_ADD           = 3;  // from a host, at or below the accumulator's exponent: shift the packet
const bit<8> ALIGN_RAISE         = 4;  // from a host, above it: shift the accumulator
const bit<8> ALIGN_STORE_PARTIAL = 5;  // the same three from a switch: wide lanes
const bit<8> ALIGN_ADD_PARTIAL   = 6;
const bit<8> ALIGN_RAISE_PARTIAL = 7;
const bit<8> ALIGN_BOTH          = 8;  // added where both planes meet the packet alike

// The accumulator has two wide words per word of payload, one per plane. Every operand has room in each of its wide lanes, so
// nothing crosses from lane to lane.
//
// A narrow word brings both planes: its even lanes, the low half of every pair, and its odd lanes, the high half. The low half is
// shifted up to its place; the high half is brought down and up in one go, so `high_shift` is lane_bits less that shift.
control Accumulate(inout headers_t hdr, inout metadata_t meta) {
    word_t sum;

#define LOW_PART(part, k)  ((WORD(part, k) & low_half) << meta.low.shift_packet)
#define HIGH_PART(part, k) ((WORD(part, k) & high_half) >> meta.high.shift_packet)

#define PUT(plane, value) \
        sum = value; \
        accumulator_##plane.write(meta.index, sum);
#define UPDATE(plane, value) \
        accumulator_##plane.read(sum, meta.index); \
        sum = value; \
        accumulator_##plane.write(meta.index, sum);

    // Hosts alone below this switch: both planes meet the packet alike.
    @name(".clear")
    action clear() {
        meta.index = meta.word_index;
#define OP(part, k) PUT(low, 0) PUT(high, 0) NEXT
        FOR_EACH_WORD(OP)
#undef OP
    }

    @name(".store")
    action store(word_t low_half, word_t high_half) {
        meta.index = meta.word_index;
#define OP(part, k) PUT(low, LOW_PART(part, k)) PUT(high, HIGH_PART(part, k)) NEXT
        FOR_EACH_WORD(OP)
#undef OP
    }

    @name(".add")
    action add(word_t low_half, word_t high_half) {
        meta.index = meta.word_index;
#define OP(part, k) UPDATE(low, sum + LOW_PART(part, k)) UPDATE(high, sum + HIGH_PART(part, k)) NEXT
        FOR_EACH_WORD(OP)
#undef OP
    }

    // For formats without an exponent.
    @name(".add_unshifted")
    action add_unshifted(word_t low_half, word_t high_half) {
        meta.index = meta.word_index;
#define OP(part, k) UPDATE(low, sum + (WORD(part, k) & low_half)) UPDATE(high, sum + HIGH_PART(part, k)) NEXT
        FOR_EACH_WORD(OP)
#undef OP
    }

    @name(".raise")
    action raise(word_t low_half, word_t high_half) {
        meta.index = meta.word_index;
#define OP(part, k) \
        UPDATE(low, (sum >> meta.low.shift_accumulator) + LOW_PART(part, k)) \
        UPDATE(high, (sum >> meta.low.shift_accumulator) + HIGH_PART(part, k)) NEXT
        FOR_EACH_WORD(OP)
#undef OP
    }

    // For formats of sort keys: the larger of each two lanes. Both stand in the low halves of wide lanes; `above` is the bit above
    // each, which survives the subtraction where the accumulator's is not smaller. Borrows two words that only the rounding uses.
#define LARGER(plane, value) \
        meta.to_offset = value; \
        accumulator_##plane.read(sum, meta.index); \
        meta.magnitudes = ((sum | above) - meta.to_offset) & above; \
        meta.magnitudes = meta.magnitudes - (meta.magnitudes >> lane_bits); \
        accumulator_##plane.read(sum, meta.index); \
        sum = meta.to_offset ^ ((sum ^ meta.to_offset) & meta.magnitudes); \
        accumulator_##plane.write(meta.index, sum);
    @name(".keep_largest")
    action keep_largest(word_t low_half, word_t high_half, word_t above, bit<8> lane_bits) {
        meta.index = meta.word_index;
#define OP(part, k) LARGER(low, WORD(part, k) & low_half) LARGER(high, HIGH_PART(part, k)) NEXT
        FOR_EACH_WORD(OP)
#undef OP
    }

    // What each ALIGN_* means for a format, with its masks. Filled by the controller, once per format.
    @name(".accumulate")
    table accumulate {
        key = {
            hdr.inca.format: exact @name("format");
            meta.how_low: exact @name("align");
        }
        actions = { clear; store; add; add_unshifted; raise; keep_largest; @defaultonly NoAction; }
        default_action = NoAction();
        size = 128;
    }

    // Switches among the children: each plane for itself.
    @name(".clear_low")
    action clear_low() {
        meta.index = meta.word_index;
#define OP(part, k) PUT(low, 0) NEXT
        FOR_EACH_WORD(OP)
#undef OP
    }

    @name(".store_low")
    action store_low(word_t low_half) {
        meta.index = meta.word_index;
#define OP(part, k) PUT(low, LOW_PART(part, k)) NEXT
        FOR_EACH_WORD(OP)
#undef OP
    }

    @name(".add_low")
    action add_low(word_t low_half) {
        meta.index = meta.word_index;
#define OP(part, k) UPDATE(low, sum + LOW_PART(part, k)) NEXT
        FOR_EACH_WORD(OP)
#undef OP
    }

    @name(".raise_low")
    action raise_low(word_t low_half) {
        meta.index = meta.word_index;
#define OP(part, k) UPDATE(low, (sum >> meta.low.shift_accumulator) + LOW_PART(part, k)) NEXT
        FOR_EACH_WORD(OP)
#undef OP
    }

    @name(".store_partial_low")
    action store_partial_low() {
        meta.index = meta.word_index;
#define OP(part, k) PUT(low, WORD(part, k)) NEXT
        FOR_EACH_WORD(OP)
#undef OP
    }

    @name(".add_partial_low")
    action add_partial_low() {
        meta.index = meta.word_index;
#define OP(part, k) UPDATE(low, sum + (WORD(part, k) >> meta.low.shift_packet)) NEXT
        FOR_EACH_WORD(OP)
#undef OP
    }

    @name(".raise_partial_low")
    action raise_partial_low() {
        meta.index = meta.word_index;
#define OP(part, k) UPDATE(low, (sum >> meta.low.shift_accumulator) + WORD(part, k)) NEXT
        FOR_EACH_WORD(OP)
#undef OP
    }

    @name(".keep_largest_low")
    action keep_largest_low(word_t low_half, word_t above, bit<8> lane_bits) {
        meta.index = meta.word_index;
#define OP(part, k) LARGER(low, WORD(part, k) & low_half) NEXT
        FOR_EACH_WORD(OP)
#undef OP
    }

    @name(".keep_largest_partial_low")
    action keep_largest_partial_low(word_t above, bit<8> lane_bits) {
        meta.index = meta.word_index;
#define OP(part, k) LARGER(low, WORD(part, k)) NEXT
        FOR_EACH_WORD(OP)
#undef OP
    }

    // As `accumulate`, for the low plane. Filled by the controller, once per format.
    @name(".accumulate_low")
    table accumulate_low {
        key = {
            hdr.inca.format: exact @name("format");
            meta.how_low: exact @name("align");
        }
        actions = {
            clear_low; store_low; add_low; raise_low;
            store_partial_low; add_partial_low; raise_partial_low; keep_largest_low; keep_largest_partial_low;
            @defaultonly NoAction;
        }
        default_action = NoAction();
        size = 128;
    }

    @name(".clear_high")
    action clear_high() {
        meta.index = meta.word_index;
#define OP(part, k) PUT(high, 0) NEXT
        FOR_EACH_WORD(OP)
#undef OP
    }

    @name(".store_high")
    action store_high(word_t high_half) {
        meta.index = meta.word_index;
#define OP(part, k) PUT(high, HIGH_PART(part, k)) NEXT
        FOR_EACH_WORD(OP)
#undef OP
    }

    @name(".add_high")
    action add_high(word_t high_half) {
        meta.index = meta.word_index;
#define OP(part, k) UPDATE(high, sum + HIGH_PART(part, k)) NEXT
        FOR_EACH_WORD(OP)
#undef OP
    }

    @name(".raise_high")
    action raise_high(word_t high_half) {
        meta.index = meta.word_index;
#define OP(part, k) UPDATE(high, (sum >> meta.high.shift_accumulator) + HIGH_PART(part, k)) NEXT
        FOR_EACH_WORD(OP)
#undef OP
    }

    @name(".store_partial_high")
    action store_partial_high() {
        meta.index = meta.word_index;
#define OP(part, k) PUT(high, WORD(part, k)) NEXT
        FOR_EACH_WORD(OP)
#undef OP
    }

    @name(".add_partial_high")
    action add_partial_high() {
        meta.index = meta.word_index;
#define OP(part, k) UPDATE(high, sum + (WORD(part, k) >> meta.high.shift_packet)) NEXT
        FOR_EACH_WORD(OP)
#undef OP
    }

    @name(".raise_partial_high")
    action raise_partial_high() {
        meta.index = meta.word_index;
#define OP(part, k) UPDATE(high, (sum >> meta.high.shift_accumulator) + WORD(part, k)) NEXT
        FOR_EACH_WORD(OP)
#undef OP
    }

    @name(".keep_largest_high")
    action keep_largest_high(word_t high_half, word_t above, bit<8> lane_bits) {
        meta.index = meta.word_index;
#define OP(part, k) LARGER(high, HIGH_PART(part, k)) NEXT
        FOR_EACH_WORD(OP)
#undef OP
    }

    @name(".keep_largest_partial_high")
    action keep_largest_partial_high(word_t above, bit<8> lane_bits) {
        meta.index = meta.word_index;
#define OP(part, k) LARGER(high, WORD(part, k)) NEXT
        FOR_EACH_WORD(OP)
#undef OP
    }

    // As `accumulate`, for the high plane. Filled by the controller, once per format.
    @name(".accumulate_high")
    table accumulate_high {
        key = {
            hdr.inca.format: exact @name("format");
            meta.how_high: exact @name("align");
        }
        actions = {
            clear_high; store_high; add_high; raise_high;
            store_partial_high; add_partial_high; raise_partial_high; keep_largest_high; keep_largest_partial_high;
            @defaultonly NoAction;
        }
        default_action = NoAction();
        size = 128;
    }

    apply {
        if (meta.how_low > ALIGN_BOTH) {
            accumulate.apply();
        } else {
            if (meta.how_low != ALIGN_NONE) {
                accumulate_low.apply();
            }
            if (meta.how_high != ALIGN_NONE) {
                accumulate_high.apply();
            }
        }
    }
#undef LOW_PART
#undef HIGH_PART
#undef LARGER
#undef PUT
#undef UPDATE
}

#endif
