// The slot protocol: what an admitted packet does to its slot (docs/protocol.md, "What a switch keeps per slot").
//
// Decisions are made inside actions: on BMv2 every group of statements between conditions is a table of its own, which costs more
// than the decisions do (docs/performance.md).

#ifndef INCA_REDUCTION
#define INCA_REDUCTION

control Reduction(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    // Scalars of the current sequence of each slot, packed: one read and one write a packet. load_slot has the layout.
    @name(".slot_scalars")   register<bit<480>>(SLOTS) slot_scalars;
    // Scalars and words of the last finished sequence. Apart from the current one, so that a child that missed the result can
    // still be answered when its siblings have moved on.
    @name(".stored_scalars") register<bit<96>>(SLOTS) stored_scalars;
    @name(".stored_words")   register<word_t>(SLOT_WORDS) stored_words;
    // The sum so far: two wide words, one per plane, for each word of payload.
    @name(".accumulator_low")  register<word_t>(SLOT_WORDS) accumulator_low;
    @name(".accumulator_high") register<word_t>(SLOT_WORDS) accumulator_high;

    Admission() admission;
    Accumulate(accumulator_low, accumulator_high) accumulate;
    Round(stored_words) round;

    bit<480> packed;
    bit<96> stored;
    bit<32> index;
    bit<1> begins;

    // The slot as it is. A slot of another generation reads as sequence 0, finished, with nothing stored: sequence 1 may begin.
    action load_sequence() {
        slot_scalars.read(packed, meta.slot_index);
        if (packed[479:448] == meta.generation) {
            meta.sequence = packed[447:416];
            meta.flags    = packed[7:0];
        } else {
            meta.flags = FLAG_DONE;
            meta.low.exp_min = EXP_MIN_OF_ZERO;
        }
    }

    action load_scalars() {
        meta.tag           = packed[415:384];
        meta.resent_at     = packed[383:352];
        meta.low.children  = packed[351:288];
        meta.low.bias      = packed[223:160];
        meta.low.exp_max   = packed[95:80];
        meta.low.exp_min   = packed[79:64];
        meta.contributions = packed[31:16];
        meta.words         = packed[15:8];
        if (meta.role != ROLE_HOST_CHILD) {
            meta.high.children = packed[287:224];
            meta.high.bias     = packed[159:96];
            meta.high.exp_max  = packed[63:48];
            meta.high.exp_min  = packed[47:32];
        }
    }

    // Where all children are hosts the planes are in step, and one is kept.
#define PACK(other) \
        packed = meta.generation ++ meta.sequence ++ meta.tag ++ meta.resent_at \
            ++ meta.low.children ++ other.children ++ meta.low.bias ++ other.bias \
            ++ meta.low.exp_max ++ meta.low.exp_min ++ other.exp_max ++ other.exp_min \
            ++ meta.contributions ++ meta.words ++ meta.flags;

    action save_slot() {
        if (meta.role == ROLE_HOST_CHILD) {
            PACK(meta.low)
        } else {
            PACK(meta.high)
        }
        slot_scalars.write(meta.slot_index, packed);
    }

    // The scalars that are not 0 when a sequence begins; the others are, as for every packet.
    action begin_sequence() {
        meta.sequence = hdr.inca.sequence;
        meta.tag = hdr.inca.tag;
        meta.flags = 0;
        meta.low.exp_min = EXP_MIN_OF_ZERO;
        meta.high.exp_min = EXP_MIN_OF_ZERO;
    }

#define IN_LOW_PLANE  (hdr.inca.plane != 1)
#define IN_HIGH_PLANE (hdr.inca.plane != 0 && meta.role != ROLE_HOST_CHILD)
#define HAS_CONTRIBUTED ((hdr.inca.plane == 1 ? meta.high.children : meta.low.children) & meta.child != 0)
#define IS_FULL ((meta.role == ROLE_HOST_CHILD ? meta.low.children : meta.low.children & meta.high.children) == meta.all_children)
#define IS_DONE (meta.flags & FLAG_DONE != 0)

    // Exponents of a contribution that adds nothing.
#define WIDEN(plane) \
        if (hdr.inca.exp_max > plane.exp_max) { plane.exp_max = hdr.inca.exp_max; } \
        if (hdr.inca.exp_min < plane.exp_min) { plane.exp_min = hdr.inca.exp_min; }

    // Brings packet and accumulator of one plane to one exponent (docs/number-formats.md, "Alignment"). `bias_in` is what the packet
    // adds to the bias once shifted. Beyond the guard bits the sum will be flagged, so nothing is added any more.
#define ALIGN(plane, align, store_as, add_as, raise_as, first_shift, add_shift, bias_in) \
        if (hdr.inca.exp_min < plane.exp_min) { plane.exp_min = hdr.inca.exp_min; } \
        if (hdr.inca.exp_max == EXP_MAX_OF_ZERO) { \
            if (plane.children == 0) { align.how = ALIGN_CLEAR; } \
        } else if (plane.exp_max == EXP_MAX_OF_ZERO) { \
            align.how = store_as; \
            align.shift_packet = first_shift; \
            plane.bias = bias_in; \
            plane.exp_max = hdr.inca.exp_max; \
        } else if (hdr.inca.exp_max > plane.exp_max) { \
            if (hdr.inca.exp_max - plane.exp_min <= meta.guard) { \
                align.how = raise_as; \
                align.shift_packet = first_shift; \
                align.shift_accumulator = (bit<8>)(hdr.inca.exp_max - plane.exp_max); \
                plane.bias = (plane.bias >> align.shift_accumulator) + (bias_in); \
            } \
            plane.exp_max = hdr.inca.exp_max; \
        } else if (plane.exp_max - plane.exp_min <= meta.guard) { \
            align.how = add_as; \
            align.shift_packet = (bit<8>)(add_shift); \
            plane.bias = plane.bias + (bias_in); \
        }
#define ALIGN_HOST(plane, align) \
        ALIGN(plane, align, ALIGN_STORE, ALIGN_ADD, ALIGN_RAISE, (bit<8>)meta.guard, \
              meta.guard - (plane.exp_max - hdr.inca.exp_max), 64w1 << (meta.lane_bits + align.shift_packet - 1))
#define ALIGN_SWITCH(plane, align) \
        ALIGN(plane, align, ALIGN_STORE_PARTIAL, ALIGN_ADD_PARTIAL, ALIGN_RAISE_PARTIAL, 0, \
              plane.exp_max - hdr.inca.exp_max, hdr.inca.bias >> align.shift_packet)

    // A new contribution: the slot's scalars take it in; `accumulate` adds the words.
    action contribute() {
        if (hdr.inca.tag != meta.tag || (meta.words != 0 && hdr.inca.words != 0 && meta.words != hdr.inca.words)) {
            meta.flags = meta.flags | FLAG_MISMATCH;
        } else if (hdr.inca.flags != 0) {
            meta.flags = meta.flags | hdr.inca.flags;
            if (IN_LOW_PLANE) {
                WIDEN(meta.low)
            }
            if (IN_HIGH_PLANE) {
                WIDEN(meta.high)
            }
        } else {
            meta.words = hdr.inca.words;
            if (meta.role == ROLE_SWITCH_CHILD) {
                if (IN_LOW_PLANE) {
                    ALIGN_SWITCH(meta.low, meta.align_low)
                } else {
                    ALIGN_SWITCH(meta.high, meta.align_high)
                }
            } else {
                ALIGN_HOST(meta.low, meta.align_low)
                if (meta.role == ROLE_HOST_CHILD) {
                    meta.align_high.shift_packet = meta.lane_bits - meta.align_low.shift_packet;
                } else {
                    ALIGN_HOST(meta.high, meta.align_high)
                    meta.align_high.shift_packet = meta.lane_bits - meta.align_high.shift_packet;
                }
            }
        }
        if (IN_LOW_PLANE) {
            meta.low.children = meta.low.children | meta.child;
            meta.contributions = meta.contributions + hdr.inca.contributions;
        }
        if (IN_HIGH_PLANE) {
            meta.high.children = meta.high.children | meta.child;
        }
        if (IS_FULL) {
            meta.event = EVENT_COMPLETED;
        } else {
            meta.event = EVENT_CONTRIBUTION;
            save_slot();
        }
    }

    // The table of the protocol document, row by row.
    action take_contribution() {
        if (begins == 1 || (hdr.inca.sequence == meta.sequence && !IS_DONE && !HAS_CONTRIBUTED)) {
            contribute();
        } else if (hdr.inca.sequence == meta.sequence && !IS_DONE) {
            if (!IS_FULL) {
                meta.event = DROP_DUPLICATE;
            } else if ((bit<32>)standard_metadata.ingress_global_timestamp - meta.resent_at < meta.resend_interval) {
                meta.event = DROP_RESEND_LIMITED;
            } else if (meta.words != hdr.inca.words && meta.flags == 0) {
                meta.event = DROP_REPLAY_MISFIT;
            } else {
                meta.event = EVENT_RESEND;
            }
        } else if (hdr.inca.sequence != 0 && (hdr.inca.sequence == meta.sequence
                                              || (!IS_DONE && hdr.inca.sequence + 1 == meta.sequence))) {
            meta.event = EVENT_REPLAY;
        } else {
            meta.event = DROP_BAD_SEQUENCE;
        }
    }

    action decide() {
        load_sequence();
        begins = 0;
        if (hdr.inca.sequence == meta.sequence + 1 && IS_DONE && meta.role != ROLE_PARENT && hdr.inca.opcode != OPCODE_PROBE) {
            begins = 1;
            begin_sequence();
        } else if (meta.sequence != 0) {
            load_scalars();
        }
        if ((hdr.inca.opcode == OPCODE_CONTRIBUTION && hdr.inca.plane == PLANE_BOTH && meta.role <= ROLE_MIXED_HOST)
            || (hdr.inca.opcode == OPCODE_PARTIAL && hdr.inca.plane < PLANE_BOTH && meta.role == ROLE_SWITCH_CHILD)) {
            if (hdr.inca.flags & ~FLAGS_OF_SENDERS != 0 || (hdr.inca.flags == 0) == (hdr.inca.words == 0)
                || (meta.role <= ROLE_MIXED_HOST && hdr.inca.contributions != 1)) {
                meta.event = DROP_BAD_FORMAT;
            } else {
                take_contribution();
            }
        } else if (hdr.inca.opcode == OPCODE_RESULT && meta.role == ROLE_PARENT) {
            if (hdr.inca.sequence == meta.sequence && !IS_DONE && IS_FULL && hdr.inca.contributions == meta.world
                && ((hdr.inca.flags == 0 && hdr.inca.words == meta.words) || (hdr.inca.flags != 0 && hdr.inca.words == 0))) {
                meta.event = EVENT_RESULT;
            } else {
                meta.event = DROP_RESULT_IGNORED;
            }
        } else if (hdr.inca.opcode == OPCODE_PROBE && meta.role != ROLE_PARENT) {
            meta.event = EVENT_PROBE;
        } else {
            meta.event = DROP_BAD_OPCODE;
        }
    }

    action remove_words() {
#define OP(part) hdr.low_##part.setInvalid();
        FOR_EACH_HEADER(OP)
#undef OP
        hdr.inca.words = 0;
    }

    action remove_high() {
#define OP(part) hdr.high_##part.setInvalid();
        FOR_EACH_HEADER(OP)
#undef OP
    }

    action load_sum() {
#define OP(part) if (hdr.low_##part.isValid()) { hdr.high_##part.setValid(); }
        FOR_EACH_HEADER(OP)
#undef OP
        index = meta.word_index;
#define OP(part, k) \
        accumulator_low.read(LOW(part, k), index); \
        accumulator_high.read(HIGH(part, k), index); \
        index = index + 1;
        FOR_EACH_WORD(OP)
#undef OP
    }

    action load_stored_words() {
        index = meta.word_index;
#define OP(part, k) \
        stored_words.read(LOW(part, k), index); \
        index = index + 1;
        FOR_EACH_WORD(OP)
#undef OP
    }

    action store_words() {
        index = meta.word_index;
#define OP(part, k) \
        stored_words.write(index, LOW(part, k)); \
        index = index + 1;
        FOR_EACH_WORD(OP)
#undef OP
    }

    // The packet becomes the slot's sum: every field from the slot, none from the packet that happened to come last.
    action become_sum() {
        if (meta.low.exp_max != EXP_MAX_OF_ZERO
            && meta.low.exp_max - meta.low.exp_min > meta.guard) {
            meta.flags = meta.flags | FLAG_RANGE;
        }
        hdr.inca.contributions = meta.contributions;
        if (meta.flags & FLAG_MISMATCH == 0) {
            hdr.inca.flags = meta.flags;
            hdr.inca.tag = meta.tag;
            hdr.inca.exp_max = meta.low.exp_max;
            hdr.inca.exp_min = meta.low.exp_min;
            hdr.inca.bias = meta.low.bias;
        } else {
            hdr.inca.flags = FLAG_MISMATCH;
            hdr.inca.tag = 0;
            hdr.inca.exp_max = EXP_MAX_OF_ZERO;
            hdr.inca.exp_min = EXP_MIN_OF_ZERO;
            hdr.inca.bias = 0;
        }
        if (hdr.inca.flags == 0) {
            load_sum();
        } else {
            remove_words();
        }
    }

    action send_up() {
        hdr.inca.opcode = OPCODE_PARTIAL;
        meta.resent_at = (bit<32>)standard_metadata.ingress_global_timestamp;
        standard_metadata.mcast_grp = meta.up_group;
    }

    action send_down() {
        hdr.inca.opcode = OPCODE_RESULT;
        hdr.inca.plane = PLANE_BOTH;
        hdr.inca.bias = 0;
        meta.flags = meta.flags | FLAG_DONE;
        stored = hdr.inca.tag ++ hdr.inca.flags ++ hdr.inca.words ++ hdr.inca.contributions
            ++ hdr.inca.exp_max ++ hdr.inca.exp_min;
        stored_scalars.write(meta.slot_index, stored);
        standard_metadata.mcast_grp = meta.down_group;
    }

    action answer_child() {
        standard_metadata.egress_spec = standard_metadata.ingress_port;
    }

    // The root's sum, rounded or found not to fit, goes down as the result.
    action finish() {
        remove_high();
        if (hdr.inca.flags != 0) {
            remove_words();
        }
        send_down();
        save_slot();
    }

    action complete_at_inner() {
        become_sum();
        send_up();
        save_slot();
    }

    action resend() {
        become_sum();
        send_up();
        save_slot();
    }

    action pass_result() {
        store_words();
        send_down();
        save_slot();
    }

    action replay() {
        stored_scalars.read(stored, meta.slot_index);
        if (stored[55:48] == 0) {
            remove_words();
        } else if (stored[55:48] == hdr.inca.words) {
            load_stored_words();
        } else {
            // A packet that grew by a chunk would overrun BMv2's buffers.
            meta.event = DROP_REPLAY_MISFIT;
        }
        hdr.inca.opcode        = OPCODE_RESULT;
        hdr.inca.tag           = stored[95:64];
        hdr.inca.flags         = stored[63:56];
        hdr.inca.contributions = stored[47:32];
        hdr.inca.exp_max       = stored[31:16];
        hdr.inca.exp_min       = stored[15:0];
        hdr.inca.plane         = PLANE_BOTH;
        hdr.inca.bias          = 0;
        answer_child();
    }

    action reply_to_probe() {
        remove_words();
        hdr.inca.opcode        = OPCODE_PROBE_REPLY;
        hdr.inca.plane         = PLANE_BOTH;
        hdr.inca.flags         = meta.flags;
        hdr.inca.sequence      = meta.sequence;
        hdr.inca.tag           = meta.tag;
        hdr.inca.contributions = meta.contributions;
        hdr.inca.exp_max       = meta.low.exp_max;
        hdr.inca.exp_min       = meta.low.exp_min;
        hdr.inca.bias          = meta.low.children;
        if (meta.role != ROLE_HOST_CHILD) {
            hdr.inca.bias = hdr.inca.bias & meta.high.children;
        }
        answer_child();
    }

    apply {
        admission.apply(hdr, meta, standard_metadata);
        if (meta.event == EVENT_NONE) {
            decide();
            if (meta.event == EVENT_CONTRIBUTION || meta.event == EVENT_COMPLETED) {
                accumulate.apply(hdr, meta);
                if (meta.event == EVENT_COMPLETED) {
                    if (meta.up_group == 0) {
                        become_sum();
                        if (hdr.inca.flags == 0) {
                            round.apply(hdr, meta);
                        }
                        finish();
                    } else {
                        complete_at_inner();
                    }
                }
            } else if (meta.event == EVENT_REPLAY) {
                replay();
            } else if (meta.event == EVENT_RESULT) {
                pass_result();
            } else if (meta.event == EVENT_RESEND) {
                resend();
            } else if (meta.event == EVENT_PROBE) {
                reply_to_probe();
            }
        }
    }
}

#endif
