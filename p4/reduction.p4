// The slot protocol: what an admitted packet does to its slot (docs/protocol.md, "What a switch keeps per slot").
//
// Decisions are made inside actions: on BMv2 an `if` within an action costs a fraction of a table or of a condition between tables.

#ifndef INCA_REDUCTION
#define INCA_REDUCTION

// What a packet does to its slot.
// 0: nothing, the packet is dropped.
const bit<8> STEP_ADD      = 1;  // a contribution that does not fill the slot
const bit<8> STEP_COMPLETE = 2;  // the one that does
const bit<8> STEP_REPLAY   = 3;  // the stored result for this child alone
const bit<8> STEP_RESEND   = 4;  // the stored sum to the parent, again
const bit<8> STEP_RESULT   = 5;  // the parent's result: store, multicast
const bit<8> STEP_PROBE    = 6;

control Reduction(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    // Scalars of the current sequence of each slot, packed: one read and one write a packet. load_slot has the layout.
    @name(".slot_scalars")   register<bit<480>>(SLOTS) slot_scalars;
    // Scalars and words of the last finished sequence. Apart from the current one, so that a child that missed the result can
    // still be answered when its siblings have moved on.
    @name(".stored_scalars") register<bit<96>>(SLOTS) stored_scalars;
    @name(".stored_words")   register<word_t>(RESULT_WORDS) stored_words;
    // Two wide words (planes) per word of payload.
    @name(".accumulator")    register<word_t>(ACCUMULATOR_WORDS) accumulator;

    Admission() admission;
    Accumulate(accumulator) accumulate;
    Round(stored_words) round;

    bit<480> packed;
    bit<96> stored;
    bit<32> index;
    bit<32> now;
    bit<1> low;        // the planes that the packet brings
    bit<1> high;
    bit<1> done;
    bit<1> current;    // it is about the slot's current sequence
    bit<1> begins;     // it begins the next one
    bit<1> fits;       // it belongs to the operation that the slot is summing
    bit<64> present;   // children that contributed what the packet brings
    bit<64> arrived;   // children that contributed all they have
    bit<64> host_bias;
    bit<16> old_max;

    // A slot of another generation reads as sequence 0, finished, with nothing stored: sequence 1 may begin.
    action load_slot() {
        slot_scalars.read(packed, meta.slot_index);
        if (packed[479:448] == meta.slot.generation) {
            meta.slot.sequence      = packed[447:416];
            meta.slot.tag           = packed[415:384];
            meta.slot.resent_at     = packed[383:352];
            meta.slot.low.children  = packed[351:288];
            meta.slot.high.children = packed[287:224];
            meta.slot.low.bias      = packed[223:160];
            meta.slot.high.bias     = packed[159:96];
            meta.slot.low.exp_max   = packed[95:80];
            meta.slot.low.exp_min   = packed[79:64];
            meta.slot.high.exp_max  = packed[63:48];
            meta.slot.high.exp_min  = packed[47:32];
            meta.slot.contributions = packed[31:16];
            meta.slot.words         = packed[15:8];
            meta.slot.flags         = packed[7:0];
        } else {
            meta.slot.flags = FLAG_DONE;
        }
    }

    action save_slot() {
        packed = meta.slot.generation ++ meta.slot.sequence ++ meta.slot.tag ++ meta.slot.resent_at
            ++ meta.slot.low.children ++ meta.slot.high.children ++ meta.slot.low.bias ++ meta.slot.high.bias
            ++ meta.slot.low.exp_max ++ meta.slot.low.exp_min ++ meta.slot.high.exp_max ++ meta.slot.high.exp_min
            ++ meta.slot.contributions ++ meta.slot.words ++ meta.slot.flags;
        slot_scalars.write(meta.slot_index, packed);
    }

    action begin_sequence() {
        meta.slot.sequence = hdr.inca.sequence;
        meta.slot.tag = hdr.inca.tag;
        meta.slot.contributions = 0;
        meta.slot.words = 0;
        meta.slot.flags = 0;
        meta.slot.low.children = 0;
        meta.slot.low.bias = 0;
        meta.slot.low.exp_max = EXP_MAX_OF_ZERO;
        meta.slot.low.exp_min = EXP_MIN_OF_ZERO;
        meta.slot.high.children = 0;
        meta.slot.high.bias = 0;
        meta.slot.high.exp_max = EXP_MAX_OF_ZERO;
        meta.slot.high.exp_min = EXP_MIN_OF_ZERO;
        present = 0;
    }

    // Brings packet and accumulator of one plane to one exponent (docs/number-formats.md, "Alignment"). Beyond the guard bits the sum
    // will be flagged, so nothing is added any more. Text rather than an action, since parameters would be copied in and out.
#define ALIGN(plane, align) \
        old_max = plane.exp_max; \
        if (fits == 1) { \
            if (hdr.inca.exp_max > plane.exp_max) { plane.exp_max = hdr.inca.exp_max; } \
            if (hdr.inca.exp_min < plane.exp_min) { plane.exp_min = hdr.inca.exp_min; } \
            if (hdr.inca.flags == 0) { \
                if (hdr.inca.exp_max == EXP_MAX_OF_ZERO) { \
                    if (plane.children == 0) { align.how = ALIGN_CLEAR; } \
                } else if (plane.exp_max - plane.exp_min <= meta.tree.guard) { \
                    if (meta.role == ROLE_HOST_CHILD) { \
                        align.shift_packet = (bit<8>)meta.tree.guard; \
                        if (old_max == EXP_MAX_OF_ZERO) { \
                            align.how = ALIGN_STORE; \
                        } else if (hdr.inca.exp_max > old_max) { \
                            align.how = ALIGN_RAISE; \
                            align.shift_accumulator = (bit<8>)(hdr.inca.exp_max - old_max); \
                        } else { \
                            align.how = ALIGN_ADD; \
                            align.shift_packet = (bit<8>)(meta.tree.guard - (old_max - hdr.inca.exp_max)); \
                        } \
                        plane.bias = (plane.bias >> align.shift_accumulator) + (host_bias << align.shift_packet); \
                    } else { \
                        if (old_max == EXP_MAX_OF_ZERO) { \
                            align.how = ALIGN_STORE_PARTIAL; \
                        } else if (hdr.inca.exp_max > old_max) { \
                            align.how = ALIGN_RAISE_PARTIAL; \
                            align.shift_accumulator = (bit<8>)(hdr.inca.exp_max - old_max); \
                        } else { \
                            align.how = ALIGN_ADD_PARTIAL; \
                            align.shift_packet = (bit<8>)(old_max - hdr.inca.exp_max); \
                        } \
                        plane.bias = (plane.bias >> align.shift_accumulator) + (hdr.inca.bias >> align.shift_packet); \
                    } \
                } \
            } \
        } \
        plane.children = plane.children | meta.child;

    // A new contribution: the slot's scalars take it in; `accumulate` adds the words.
    action contribute() {
        if (begins == 1) {
            begin_sequence();
        }
        fits = 1;
        if (hdr.inca.tag != meta.slot.tag) {
            fits = 0;
        } else if (hdr.inca.flags == 0) {
            if (meta.slot.words == 0) {
                meta.slot.words = hdr.inca.words;
            } else if (meta.slot.words != hdr.inca.words) {
                fits = 0;
            }
        }
        if (fits == 0) {
            meta.slot.flags = meta.slot.flags | FLAG_MISMATCH;
        } else {
            meta.slot.flags = meta.slot.flags | hdr.inca.flags;
        }
        host_bias = 64w1 << (meta.tree.lane_bits - 1);
        if (meta.role == ROLE_HOST_CHILD) {
            meta.slot.contributions = meta.slot.contributions + 1;
        } else if (low == 1) {
            meta.slot.contributions = meta.slot.contributions + hdr.inca.contributions;
        }
        if (low == 1) {
            ALIGN(meta.slot.low, meta.align_low)
        }
        if (high == 1) {
            ALIGN(meta.slot.high, meta.align_high)
            if (meta.role == ROLE_HOST_CHILD) {
                meta.align_high.shift_packet = meta.tree.lane_bits - meta.align_high.shift_packet;
            }
        }
        if (meta.slot.low.children & meta.slot.high.children == meta.tree.all_children) {
            meta.step = STEP_COMPLETE;
            meta.event = EVENT_COMPLETED;
        } else {
            meta.step = STEP_ADD;
            meta.event = EVENT_CONTRIBUTION;
        }
    }

    // The table of the protocol document.
    action decide() {
        load_slot();
        now = (bit<32>)standard_metadata.ingress_global_timestamp;
        low = 0;
        high = 0;
        present = meta.slot.high.children;
        if (meta.role == ROLE_HOST_CHILD) {
            low = 1;
            high = 1;
        } else if (hdr.inca.plane == 0) {
            low = 1;
            present = meta.slot.low.children;
        } else {
            high = 1;
        }
        done = 0;
        if (meta.slot.flags & FLAG_DONE != 0) {
            done = 1;
        }
        current = 0;
        begins = 0;
        if (hdr.inca.sequence == meta.slot.sequence) {
            current = 1;
        } else if (hdr.inca.sequence == meta.slot.sequence + 1) {
            begins = done;
        }
        arrived = meta.slot.low.children & meta.slot.high.children;

        if (hdr.inca.opcode == OPCODE_RESULT) {
            if (meta.role == ROLE_PARENT && current == 1 && done == 0 && arrived == meta.tree.all_children
                && hdr.inca.contributions == meta.tree.world
                && ((hdr.inca.flags == 0 && hdr.inca.words == meta.slot.words)
                    || (hdr.inca.flags != 0 && hdr.inca.words == 0))) {
                meta.step = STEP_RESULT;
                meta.event = EVENT_RESULT;
            } else {
                meta.event = DROP_RESULT_IGNORED;
            }
        } else if (hdr.inca.opcode == OPCODE_PROBE && meta.role != ROLE_PARENT) {
            meta.step = STEP_PROBE;
            meta.event = EVENT_PROBE;
        } else if (!((meta.role == ROLE_HOST_CHILD && hdr.inca.opcode == OPCODE_CONTRIBUTION && hdr.inca.plane == PLANE_BOTH)
                     || (meta.role == ROLE_SWITCH_CHILD && hdr.inca.opcode == OPCODE_PARTIAL && hdr.inca.plane < PLANE_BOTH))) {
            meta.event = DROP_BAD_OPCODE;
        } else if (hdr.inca.flags & ~FLAGS_OF_SENDERS != 0 || (hdr.inca.flags == 0) == (hdr.inca.words == 0)) {
            meta.event = DROP_BAD_FORMAT;
        } else if (begins == 1 || (current == 1 && done == 0 && present & meta.child == 0)) {
            contribute();
        } else if (hdr.inca.sequence != 0
                   && ((current == 1 && done == 1) || (done == 0 && hdr.inca.sequence + 1 == meta.slot.sequence))) {
            meta.step = STEP_REPLAY;
            meta.event = EVENT_REPLAY;
        } else if (current == 0 || done == 1) {
            meta.event = DROP_BAD_SEQUENCE;
        } else if (arrived != meta.tree.all_children) {
            meta.event = DROP_DUPLICATE;
        } else if (now - meta.slot.resent_at < meta.tree.resend_interval) {
            meta.event = DROP_RESEND_LIMITED;
        } else if (hdr.inca.words != 0 && meta.slot.words != hdr.inca.words && meta.slot.flags == 0) {
            meta.event = DROP_REPLAY_MISFIT;
        } else {
            meta.step = STEP_RESEND;
            meta.event = EVENT_RESEND;
        }
    }

    action remove_words() {
#define OP(i) hdr.low[i].setInvalid();
        FOR_EACH_WORD(meta.words, OP)
#undef OP
        hdr.inca.words = 0;
    }

    action remove_high() {
#define OP(i) hdr.high[i].setInvalid();
        FOR_EACH_WORD(meta.words, OP)
#undef OP
    }

    action load_sum() {
#define OP(i) \
        index = meta.accumulator_index + 2 * i; \
        accumulator.read(hdr.low[i].lanes, index); \
        index = index + 1; \
        hdr.high[i].setValid(); \
        accumulator.read(hdr.high[i].lanes, index);
        FOR_EACH_WORD(meta.words, OP)
#undef OP
    }

    action load_stored_words() {
#define OP(i) \
        index = meta.result_index + i; \
        stored_words.read(hdr.low[i].lanes, index);
        FOR_EACH_WORD(meta.words, OP)
#undef OP
    }

    action store_words() {
#define OP(i) \
        index = meta.result_index + i; \
        stored_words.write(index, hdr.low[i].lanes);
        FOR_EACH_WORD(meta.words, OP)
#undef OP
    }

    // The packet becomes the slot's sum: every field from the slot, none from the packet that happened to come last.
    action become_sum() {
        if (meta.slot.low.exp_max != EXP_MAX_OF_ZERO
            && meta.slot.low.exp_max - meta.slot.low.exp_min > meta.tree.guard) {
            meta.slot.flags = meta.slot.flags | FLAG_RANGE;
        }
        hdr.inca.contributions = meta.slot.contributions;
        if (meta.slot.flags & FLAG_MISMATCH == 0) {
            hdr.inca.flags = meta.slot.flags;
            hdr.inca.tag = meta.slot.tag;
            hdr.inca.exp_max = meta.slot.low.exp_max;
            hdr.inca.exp_min = meta.slot.low.exp_min;
            hdr.inca.bias = meta.slot.low.bias;
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
        meta.slot.resent_at = now;
        standard_metadata.mcast_grp = meta.tree.up_group;
        meta.readdress = 1;
    }

    action send_down() {
        hdr.inca.opcode = OPCODE_RESULT;
        hdr.inca.plane = PLANE_BOTH;
        hdr.inca.bias = 0;
        meta.slot.flags = meta.slot.flags | FLAG_DONE;
        stored = hdr.inca.tag ++ hdr.inca.flags ++ hdr.inca.words ++ hdr.inca.contributions
            ++ hdr.inca.exp_max ++ hdr.inca.exp_min;
        stored_scalars.write(meta.slot_index, stored);
        standard_metadata.mcast_grp = meta.tree.down_group;
        meta.readdress = 1;
    }

    action answer_child() {
        standard_metadata.egress_spec = standard_metadata.ingress_port;
        meta.readdress = 1;
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

    action add() {
        meta.drops = 1;
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
            meta.drops = 1;
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
        hdr.inca.flags         = meta.slot.flags;
        hdr.inca.sequence      = meta.slot.sequence;
        hdr.inca.tag           = meta.slot.tag;
        hdr.inca.contributions = meta.slot.contributions;
        hdr.inca.exp_max       = meta.slot.low.exp_max;
        hdr.inca.exp_min       = meta.slot.low.exp_min;
        hdr.inca.bias          = meta.slot.low.children & meta.slot.high.children;
        answer_child();
    }

    apply {
        admission.apply(hdr, meta, standard_metadata);
        if (meta.event == EVENT_NONE) {
            decide();
            if (meta.step == STEP_ADD || meta.step == STEP_COMPLETE) {
                accumulate.apply(hdr, meta);
                if (meta.step == STEP_ADD) {
                    add();
                } else if (meta.tree.is_root == 1) {
                    become_sum();
                    if (hdr.inca.flags == 0) {
                        round.apply(hdr, meta);
                    }
                    finish();
                } else {
                    complete_at_inner();
                }
            } else if (meta.step == STEP_REPLAY) {
                replay();
            } else if (meta.step == STEP_RESULT) {
                pass_result();
            } else if (meta.step == STEP_RESEND) {
                resend();
            } else if (meta.step == STEP_PROBE) {
                reply_to_probe();
            } else {
                meta.drops = 1;
            }
        } else {
            meta.drops = 1;
        }
    }
}

#endif
