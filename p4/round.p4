// The root's rounding: from two planes of wide lanes to one word of narrow lanes (docs/number-formats.md, "Rounding at the
// root"). Formats and shifts are table entries; every constant below is a word with the same value in each wide lane.

#ifndef INCA_ROUND
#define INCA_ROUND

control Round(inout headers_t hdr, inout metadata_t meta)(register<word_t, word_index_t> stored_words) {
    word_t low_sum;
    word_t high_sum;

#define READ_SUMS \
        accumulator_low.read(low_sum, meta.index); \
        accumulator_high.read(high_sum, meta.index);

    // Turns each wide lane of the sum, which holds V + bias, into T = V + 2^(2w-1), and ORs together the lanes' magnitudes X.
    //   ones: 1      top: 2^(2w-1)      rest: 2^(2w-1) - 1      half: 2^(w-1)      low: 2^w - 1
    //   lane_bits: w      top_bit: 2w - 1      fold, fold_again: how far to fold the last 64 bits to one lane, in two steps (0: no more)
    @name(".measure_lanes")
    action measure_lanes(word_t ones, word_t top, word_t rest, word_t half, word_t low, bit<8> lane_bits, bit<8> top_bit, bit<8> fold, bit<8> fold_again) {
        meta.to_offset = top - ones * (word_t)meta.bias;
        // T ^ (rest + its top bit) is V for V >= 0 and -V - 1 below: the top bit either completes `rest` to `top` or not. Nested
        // expressions, since a word written to a field costs more than the few operations that are done twice.
#define T(word)         (word + meta.to_offset)
#define MAGNITUDE(word) (T(word) ^ (rest + ((T(word) >> top_bit) & ones)))
#define ROUNDED_UP(m)   (m + (((m + half) >> lane_bits) & low))
#define MEASURE(part, k) \
        READ_SUMS \
        meta.magnitudes = meta.magnitudes | ROUNDED_UP(MAGNITUDE(low_sum)) | ROUNDED_UP(MAGNITUDE(high_sum)); \
        NEXT
        // Constant shifts end at 255 on this target; slices do not.
#define FOLD_TO_128_BITS \
        meta.magnitudes = meta.magnitudes | (word_t)meta.magnitudes[2047:1024]; \
        meta.magnitudes = meta.magnitudes | (word_t)meta.magnitudes[1023:512]; \
        meta.magnitudes = meta.magnitudes | (word_t)meta.magnitudes[511:256]; \
        meta.magnitudes = meta.magnitudes | (meta.magnitudes >> 128);
        meta.magnitudes = 0;
        meta.index = meta.word_index;
        FOR_EACH_WORD(MEASURE)
        FOLD_TO_128_BITS
        meta.magnitudes = meta.magnitudes | (meta.magnitudes >> 64);
        meta.widest = meta.magnitudes[63:0];
        meta.widest = meta.widest | (meta.widest >> fold);
        meta.widest = meta.widest | (meta.widest >> fold_again);
    }

    // The same for integers of 64 bits: the bias has more bits than its field, and is computed anew. Of the magnitudes the bits that
    // a lane can't hold are kept, from 63 on.
    @name(".measure_64_bit_lanes")
    action measure_64_bit_lanes(word_t ones, word_t top, word_t rest, word_t half, word_t low, bit<8> lane_bits, bit<8> top_bit) {
        meta.to_offset = top - ones * ((word_t)hdr.inca.contributions << 63);
        meta.magnitudes = 0;
        meta.index = meta.word_index;
        FOR_EACH_WORD(MEASURE)
        FOLD_TO_128_BITS
        meta.widest = meta.magnitudes[126:63];
    }
#undef MEASURE
#undef FOLD_TO_128_BITS

    // For sort keys, which are no sums: always kept as they are.
    @name(".measure_nothing")
    action measure_nothing() {
        meta.to_offset = 0;
        meta.widest = 0;
    }

    // The constants of a format. Filled by the controller, once per format.
    @name(".measure")
    table measure {
        key = { hdr.inca.format: exact @name("format"); }
        actions = { measure_lanes; measure_64_bit_lanes; measure_nothing; @defaultonly NoAction; }
        default_action = NoAction();
        size = 16;
    }

    // Shift 0: the sum fits as it is, a sum of zeros too, which has no exponent.      offset: 2^(w-1) - 2^(2w-1), modulo 2^2048 over the whole word
    // (0 for sort keys)
    @name(".keep")
    action keep(word_t offset, bit<8> lane_bits) {
        meta.index = meta.word_index;
#define OP(part, k) \
        READ_SUMS \
        WORD(part, k) = (T(low_sum) + offset) | ((T(high_sum) + offset) << lane_bits); \
        stored_words.write(meta.index, WORD(part, k)); \
        NEXT
        FOR_EACH_WORD(OP)
#undef OP
        if (hdr.inca.exp_max != EXP_MAX_OF_ZERO) {
            hdr.inca.exp_max = hdr.inca.exp_max - meta.guard;
        }
    }

    // To nearest, ties to even, at 2^shift.      offset: 2^(w-1+shift) - 2^(2w-1) + 2^(shift-1) - 1, likewise      ones: 1      low: 2^w - 1
    @name(".round_lanes")
    action round_lanes(bit<8> shift, word_t offset, word_t ones, word_t low, bit<8> lane_bits) {
#define ROUNDED(word) (((T(word) + offset + ((T(word) >> shift) & ones)) >> shift) & low)
        meta.index = meta.word_index;
#define OP(part, k) \
        READ_SUMS \
        WORD(part, k) = ROUNDED(low_sum) | (ROUNDED(high_sum) << lane_bits); \
        stored_words.write(meta.index, WORD(part, k)); \
        NEXT
        FOR_EACH_WORD(OP)
#undef OP
        hdr.inca.exp_max = hdr.inca.exp_max - meta.guard + (bit<16>)shift;
    }

    @name(".overflow")
    action overflow() {
        hdr.inca.flags = FLAG_OVERFLOW;
    }

    // The position of the highest bit of any lane's magnitude gives the shift. Filled by the controller: per format one entry
    // for each position. No entry: the sum does not fit.
    @name(".normalize")
    table normalize {
        key = {
            hdr.inca.format: exact @name("format");
            meta.widest: ternary @name("widest");
        }
        actions = { keep; round_lanes; overflow; }
        default_action = overflow();
        size = 1024;
    }

    apply {
        measure.apply();
        normalize.apply();
    }
}

#endif
