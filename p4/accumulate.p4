// Adding a packet to a slot: which shifts bring packet and accumulator to one exponent (docs/number-formats.md, "Alignment"),
// and the additions themselves, one word at a time, all lanes at once.

#ifndef INCA_ACCUMULATE
#define INCA_ACCUMULATE

// How a packet's lanes meet the accumulator. Keys of the tables accumulate_low and accumulate_high.
const bit<8> ALIGN_NONE          = 0;  // nothing to add
const bit<8> ALIGN_CLEAR         = 1;  // first contribution, all zeros
const bit<8> ALIGN_STORE         = 2;  // first non-zero contribution of a host
const bit<8> ALIGN_ADD           = 3;  // host, at or below the accumulator's exponent: shift the packet
const bit<8> ALIGN_RAISE         = 4;  // host, above it: shift the accumulator
const bit<8> ALIGN_STORE_PARTIAL = 5;  // the same three from a switch: wide lanes
const bit<8> ALIGN_ADD_PARTIAL   = 6;
const bit<8> ALIGN_RAISE_PARTIAL = 7;

// Decides ALIGN_* for one plane and updates that plane's scalars. `adds`: the contribution counts (no flags, right tag);
// `counts`: its exponents do.
control AlignPlane(inout headers_t hdr, in metadata_t meta, inout plane_t plane, in bit<1> adds, in bit<1> counts) {
    apply {
        bit<1> first = (bit<1>)(plane.children == 0);
        plane.children = plane.children | meta.child;
        plane.align = ALIGN_NONE;
        bit<16> old_max = plane.exp_max;
        if (counts == 1) {
            if (hdr.inca.exp_max > plane.exp_max) {
                plane.exp_max = hdr.inca.exp_max;
            }
            if (hdr.inca.exp_min < plane.exp_min) {
                plane.exp_min = hdr.inca.exp_min;
            }
        }
        if (adds == 1) {
            if (hdr.inca.exp_max == EXP_MAX_OF_ZERO) {
                if (first == 1) {
                    plane.align = ALIGN_CLEAR;
                }
            } else if (plane.exp_max - plane.exp_min > meta.tree.guard) {
                // Beyond the guard bits: the sum will be flagged, so nothing is added any more.
                plane.align = ALIGN_NONE;
            } else if (meta.role == ROLE_HOST_CHILD) {
                bit<64> host_bias = 64w1 << (meta.tree.lane_bits - 1);
                bit<8> guard = (bit<8>)meta.tree.guard;
                if (old_max == EXP_MAX_OF_ZERO) {
                    plane.align = ALIGN_STORE;
                    plane.shift_packet = guard;
                    plane.bias = host_bias << guard;
                } else if (hdr.inca.exp_max > old_max) {
                    plane.align = ALIGN_RAISE;
                    plane.shift_packet = guard;
                    plane.shift_accumulator = (bit<8>)(hdr.inca.exp_max - old_max);
                    plane.bias = (plane.bias >> plane.shift_accumulator) + (host_bias << guard);
                } else {
                    plane.align = ALIGN_ADD;
                    plane.shift_packet = guard - (bit<8>)(old_max - hdr.inca.exp_max);
                    plane.bias = plane.bias + (host_bias << plane.shift_packet);
                }
            } else {
                if (old_max == EXP_MAX_OF_ZERO) {
                    plane.align = ALIGN_STORE_PARTIAL;
                    plane.bias = hdr.inca.bias;
                } else if (hdr.inca.exp_max > old_max) {
                    plane.align = ALIGN_RAISE_PARTIAL;
                    plane.shift_accumulator = (bit<8>)(hdr.inca.exp_max - old_max);
                    plane.bias = (plane.bias >> plane.shift_accumulator) + hdr.inca.bias;
                } else {
                    plane.align = ALIGN_ADD_PARTIAL;
                    plane.shift_packet = (bit<8>)(old_max - hdr.inca.exp_max);
                    plane.bias = plane.bias + (hdr.inca.bias >> plane.shift_packet);
                }
            }
        }
    }
}

// The additions. `accumulator` holds the two planes of a slot's word i at 2 i and 2 i + 1. Every operand is a word with room in
// each wide lane, so nothing crosses a lane.
control Accumulate(inout headers_t hdr, inout metadata_t meta)(register<word_t> accumulator) {
    word_t sum;

#define LOW(i)  (meta.accumulator_index + 2 * i)
#define HIGH(i) (meta.accumulator_index + 2 * i + 1)
#define UPDATE(index, value) accumulator.read(sum, index); accumulator.write(index, value);

    @name(".clear_low")
    action clear_low() {
#define OP(i) accumulator.write(LOW(i), 0);
        FOR_EACH_WORD(meta.words, OP)
#undef OP
    }

    // `mask`: the low half of every pair of lanes.
    @name(".store_low")
    action store_low(word_t mask) {
#define OP(i) accumulator.write(LOW(i), (hdr.low[i].lanes & mask) << meta.slot.low.shift_packet);
        FOR_EACH_WORD(meta.words, OP)
#undef OP
    }

    @name(".add_low")
    action add_low(word_t mask) {
#define OP(i) UPDATE(LOW(i), sum + ((hdr.low[i].lanes & mask) << meta.slot.low.shift_packet))
        FOR_EACH_WORD(meta.words, OP)
#undef OP
    }

    // For formats without an exponent.
    @name(".add_low_unshifted")
    action add_low_unshifted(word_t mask) {
#define OP(i) UPDATE(LOW(i), sum + (hdr.low[i].lanes & mask))
        FOR_EACH_WORD(meta.words, OP)
#undef OP
    }

    @name(".raise_low")
    action raise_low(word_t mask) {
#define OP(i) UPDATE(LOW(i), (sum >> meta.slot.low.shift_accumulator) + ((hdr.low[i].lanes & mask) << meta.slot.low.shift_packet))
        FOR_EACH_WORD(meta.words, OP)
#undef OP
    }

    @name(".store_partial_low")
    action store_partial_low() {
#define OP(i) accumulator.write(LOW(i), hdr.low[i].lanes);
        FOR_EACH_WORD(meta.words, OP)
#undef OP
    }

    @name(".add_partial_low")
    action add_partial_low() {
#define OP(i) UPDATE(LOW(i), sum + (hdr.low[i].lanes >> meta.slot.low.shift_packet))
        FOR_EACH_WORD(meta.words, OP)
#undef OP
    }

    @name(".raise_partial_low")
    action raise_partial_low() {
#define OP(i) UPDATE(LOW(i), (sum >> meta.slot.low.shift_accumulator) + hdr.low[i].lanes)
        FOR_EACH_WORD(meta.words, OP)
#undef OP
    }

    // What each way of meeting the accumulator means for a format: its masks. Filled by the controller, once per format.
    @name(".accumulate_low")
    table accumulate_low {
        key = {
            meta.tree.format: exact @name("format");
            meta.slot.low.align: exact @name("align");
        }
        actions = {
            clear_low; store_low; add_low; add_low_unshifted; raise_low;
            store_partial_low; add_partial_low; raise_partial_low; @defaultonly NoAction;
        }
        default_action = NoAction();
        size = 128;
    }

    // The high plane: `mask` is the high half of every pair of lanes, brought down by lane_bits less the packet's shift
    // (meta.slot.high.shift_packet holds that difference for a host's packet).
    @name(".clear_high")
    action clear_high() {
#define OP(i) accumulator.write(HIGH(i), 0);
        FOR_EACH_WORD(meta.words, OP)
#undef OP
    }

    @name(".store_high")
    action store_high(word_t mask) {
#define OP(i) accumulator.write(HIGH(i), (hdr.low[i].lanes & mask) >> meta.slot.high.shift_packet);
        FOR_EACH_WORD(meta.words, OP)
#undef OP
    }

    @name(".add_high")
    action add_high(word_t mask) {
#define OP(i) UPDATE(HIGH(i), sum + ((hdr.low[i].lanes & mask) >> meta.slot.high.shift_packet))
        FOR_EACH_WORD(meta.words, OP)
#undef OP
    }

    @name(".raise_high")
    action raise_high(word_t mask) {
#define OP(i) UPDATE(HIGH(i), (sum >> meta.slot.high.shift_accumulator) + ((hdr.low[i].lanes & mask) >> meta.slot.high.shift_packet))
        FOR_EACH_WORD(meta.words, OP)
#undef OP
    }

    @name(".store_partial_high")
    action store_partial_high() {
#define OP(i) accumulator.write(HIGH(i), hdr.low[i].lanes);
        FOR_EACH_WORD(meta.words, OP)
#undef OP
    }

    @name(".add_partial_high")
    action add_partial_high() {
#define OP(i) UPDATE(HIGH(i), sum + (hdr.low[i].lanes >> meta.slot.high.shift_packet))
        FOR_EACH_WORD(meta.words, OP)
#undef OP
    }

    @name(".raise_partial_high")
    action raise_partial_high() {
#define OP(i) UPDATE(HIGH(i), (sum >> meta.slot.high.shift_accumulator) + hdr.low[i].lanes)
        FOR_EACH_WORD(meta.words, OP)
#undef OP
    }

    // As accumulate_low. Filled by the controller, once per format.
    @name(".accumulate_high")
    table accumulate_high {
        key = {
            meta.tree.format: exact @name("format");
            meta.slot.high.align: exact @name("align");
        }
        actions = {
            clear_high; store_high; add_high; raise_high;
            store_partial_high; add_partial_high; raise_partial_high; @defaultonly NoAction;
        }
        default_action = NoAction();
        size = 128;
    }

    apply {
        if (meta.slot.low.align != ALIGN_NONE) {
            accumulate_low.apply();
        }
        if (meta.slot.high.align != ALIGN_NONE) {
            if (meta.role == ROLE_HOST_CHILD) {
                meta.slot.high.shift_packet = meta.tree.lane_bits - meta.slot.high.shift_packet;
            }
            accumulate_high.apply();
        }
    }
#undef UPDATE
}

#endif
