// The slot protocol: what an admitted packet does to its slot (docs/protocol.md, "What a switch keeps per slot").

#ifndef INCA_REDUCTION
#define INCA_REDUCTION

control Reduction(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    // Scalars of the current sequence of each slot, packed: one read and one write a packet. See load_slot for the layout.
    @name(".slot_scalars")   register<bit<480>>(SLOTS) slot_scalars;
    // Scalars and words of the last finished sequence. Apart from the current one, so that a child that missed the result can
    // still be answered when its siblings have moved on.
    @name(".stored_scalars") register<bit<96>>(SLOTS) stored_scalars;
    @name(".stored_words")   register<word_t>(RESULT_WORDS) stored_words;
    // Two wide words (planes) per word of payload.
    @name(".accumulator")    register<word_t>(ACCUMULATOR_WORDS) accumulator;

    Admission() admission;
    AlignPlane() align_low;
    AlignPlane() align_high;
    Accumulate(accumulator) accumulate;
    Round(stored_words) round;

    bit<480> packed;
    bit<96> stored;
    bit<32> now = (bit<32>)standard_metadata.ingress_global_timestamp;

    // A slot of another generation reads as sequence 0, finished, with nothing stored: sequence 1 may begin.
    action load_slot() {
        slot_scalars.read(packed, meta.slot_index);
        meta.slot.generation    = packed[479:448];
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
        if (meta.slot.generation != meta.tree.generation) {
            meta.slot.generation = meta.tree.generation;
            meta.slot.sequence = 0;
            meta.slot.flags = FLAG_DONE;
        }
    }

    action save_slot() {
        slot_scalars.write(meta.slot_index,
            meta.slot.generation ++ meta.slot.sequence ++ meta.slot.tag ++ meta.slot.resent_at
            ++ meta.slot.low.children ++ meta.slot.high.children ++ meta.slot.low.bias ++ meta.slot.high.bias
            ++ meta.slot.low.exp_max ++ meta.slot.low.exp_min ++ meta.slot.high.exp_max ++ meta.slot.high.exp_min
            ++ meta.slot.contributions ++ meta.slot.words ++ meta.slot.flags);
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
    }

    action remove_words() {
#define OP(i) hdr.low[i].setInvalid();
        FOR_EACH_WORD(meta.words, OP)
#undef OP
        hdr.inca.words = 0;
    }

    action load_sum() {
#define OP(i) \
        accumulator.read(hdr.low[i].lanes, meta.accumulator_index + 2 * i); \
        hdr.high[i].setValid(); \
        accumulator.read(hdr.high[i].lanes, meta.accumulator_index + 2 * i + 1);
        FOR_EACH_WORD(meta.words, OP)
#undef OP
    }

    action remove_high() {
#define OP(i) hdr.high[i].setInvalid();
        FOR_EACH_WORD(meta.words, OP)
#undef OP
    }

    action load_stored_words() {
#define OP(i) stored_words.read(hdr.low[i].lanes, meta.result_index + i);
        FOR_EACH_WORD(meta.words, OP)
#undef OP
    }

    action store_words() {
#define OP(i) stored_words.write(meta.result_index + i, hdr.low[i].lanes);
        FOR_EACH_WORD(meta.words, OP)
#undef OP
    }

    // The packet becomes the slot's sum: every field from the slot, none from the packet that happened to come last.
    action describe_sum() {
        hdr.inca.flags = meta.slot.flags;
        hdr.inca.tag = meta.slot.tag;
        hdr.inca.contributions = meta.slot.contributions;
        hdr.inca.exp_max = meta.slot.low.exp_max;
        hdr.inca.exp_min = meta.slot.low.exp_min;
        hdr.inca.bias = meta.slot.low.bias;
    }

    action describe_mismatch() {
        meta.slot.flags = FLAG_MISMATCH;
        hdr.inca.flags = FLAG_MISMATCH;
        hdr.inca.tag = 0;
        hdr.inca.exp_max = EXP_MAX_OF_ZERO;
        hdr.inca.exp_min = EXP_MIN_OF_ZERO;
        hdr.inca.bias = 0;
    }

    action save_result() {
        meta.slot.flags = meta.slot.flags | FLAG_DONE;
        stored_scalars.write(meta.slot_index, hdr.inca.tag ++ hdr.inca.flags ++ hdr.inca.words ++ hdr.inca.contributions
                                              ++ hdr.inca.exp_max ++ hdr.inca.exp_min);
    }

    action send_result_down() {
        hdr.inca.opcode = OPCODE_RESULT;
        hdr.inca.plane = PLANE_BOTH;
        hdr.inca.bias = 0;
        standard_metadata.mcast_grp = meta.tree.down_group;
        meta.readdress = 1;
    }

    action send_sum_up() {
        hdr.inca.opcode = OPCODE_PARTIAL;
        meta.slot.resent_at = now;
        standard_metadata.mcast_grp = meta.tree.up_group;
        meta.readdress = 1;
    }

    action answer_child() {
        standard_metadata.egress_spec = standard_metadata.ingress_port;
        meta.readdress = 1;
    }

    action drop_as(bit<32> reason) {
        meta.event = reason;
        meta.verdict_drop = 1;
    }

    // The slot is full: the packet turns into its sum and goes up, or, at the root, into its result and goes down.
    action sum_flags() {
        if (meta.slot.low.exp_max != EXP_MAX_OF_ZERO
            && meta.slot.low.exp_max - meta.slot.low.exp_min > meta.tree.guard) {
            meta.slot.flags = meta.slot.flags | FLAG_RANGE;
        }
        if (meta.slot.flags & FLAG_MISMATCH != 0) {
            describe_mismatch();
        } else {
            describe_sum();
        }
    }

    apply {
        admission.apply(hdr, meta, standard_metadata);
        if (meta.event != EVENT_FORWARDED) {
            meta.verdict_drop = 1;
            return;
        }
        load_slot();

        // The planes that this packet brings.
        bit<1> low  = (bit<1>)(meta.role == ROLE_HOST_CHILD || hdr.inca.plane == 0);
        bit<1> high = (bit<1>)(meta.role == ROLE_HOST_CHILD || hdr.inca.plane == 1);
        bit<1> done = (bit<1>)(meta.slot.flags & FLAG_DONE != 0);

        if (hdr.inca.opcode == OPCODE_RESULT) {
            if (meta.role == ROLE_PARENT && hdr.inca.sequence == meta.slot.sequence && done == 0
                && (meta.slot.low.children & meta.slot.high.children) == meta.tree.all_children
                && hdr.inca.contributions == meta.tree.world
                && ((hdr.inca.flags == 0 && hdr.inca.words == meta.slot.words)
                    || (hdr.inca.flags != 0 && hdr.inca.words == 0))) {
                store_words();
                save_result();
                save_slot();
                send_result_down();
                meta.event = EVENT_RESULT;
            } else {
                drop_as(DROP_RESULT_IGNORED);
            }
        } else if (meta.role == ROLE_PARENT) {
            drop_as(DROP_BAD_OPCODE);
        } else if (hdr.inca.opcode == OPCODE_PROBE) {
            remove_words();
            describe_sum();
            hdr.inca.opcode = OPCODE_PROBE_REPLY;
            hdr.inca.sequence = meta.slot.sequence;
            hdr.inca.bias = meta.slot.low.children & meta.slot.high.children;
            answer_child();
            meta.event = EVENT_PROBE;
        } else if (!((meta.role == ROLE_HOST_CHILD && hdr.inca.opcode == OPCODE_CONTRIBUTION && hdr.inca.plane == PLANE_BOTH)
                     || (meta.role == ROLE_SWITCH_CHILD && hdr.inca.opcode == OPCODE_PARTIAL && hdr.inca.plane < PLANE_BOTH))) {
            drop_as(DROP_BAD_OPCODE);
        } else if ((hdr.inca.flags & FLAGS_OF_SENDERS == 0) != (hdr.inca.flags == 0)
                   || (hdr.inca.flags == 0) == (hdr.inca.words == 0)) {
            drop_as(DROP_BAD_FORMAT);
        } else {
            bit<64> present = meta.slot.high.children;
            if (low == 1) {
                present = meta.slot.low.children;
            }
            bit<1> begins = (bit<1>)(done == 1 && hdr.inca.sequence == meta.slot.sequence + 1);
            bit<1> current = (bit<1>)(hdr.inca.sequence == meta.slot.sequence);
            bit<1> full = (bit<1>)((meta.slot.low.children & meta.slot.high.children) == meta.tree.all_children);

            if (begins == 1 || (current == 1 && done == 0 && present & meta.child == 0)) {
                // A new contribution.
                if (begins == 1) {
                    begin_sequence();
                }
                bit<1> fits = 1;
                if (hdr.inca.tag != meta.slot.tag) {
                    fits = 0;
                } else if (hdr.inca.flags == 0) {
                    if (meta.slot.words == 0) {
                        meta.slot.words = hdr.inca.words;
                    } else if (meta.slot.words != hdr.inca.words) {
                        fits = 0;
                    }
                }
                bit<1> adds = 0;
                if (fits == 0) {
                    meta.slot.flags = meta.slot.flags | FLAG_MISMATCH;
                } else if (hdr.inca.flags == 0) {
                    adds = 1;
                } else {
                    meta.slot.flags = meta.slot.flags | hdr.inca.flags;
                }
                if (meta.role == ROLE_HOST_CHILD) {
                    meta.slot.contributions = meta.slot.contributions + 1;
                } else if (low == 1) {
                    meta.slot.contributions = meta.slot.contributions + hdr.inca.contributions;
                }
                if (low == 1) {
                    align_low.apply(hdr, meta, meta.slot.low, adds, fits);
                }
                if (high == 1) {
                    align_high.apply(hdr, meta, meta.slot.high, adds, fits);
                }
                accumulate.apply(hdr, meta);
                meta.event = EVENT_CONTRIBUTION;

                if ((meta.slot.low.children & meta.slot.high.children) == meta.tree.all_children) {
                    meta.event = EVENT_COMPLETED;
                    sum_flags();
                    if (hdr.inca.flags == 0) {
                        load_sum();
                        if (meta.tree.is_root == 1) {
                            round.apply(hdr, meta);
                            remove_high();
                        }
                    }
                    if (hdr.inca.flags != 0) {
                        remove_words();
                    }
                    if (meta.tree.is_root == 1) {
                        save_result();
                        send_result_down();
                    } else {
                        send_sum_up();
                    }
                } else {
                    meta.verdict_drop = 1;
                }
                save_slot();
            } else if (hdr.inca.sequence != 0
                       && ((current == 1 && done == 1) || (done == 0 && hdr.inca.sequence + 1 == meta.slot.sequence))) {
                // Finished: the stored result for this child alone.
                stored_scalars.read(stored, meta.slot_index);
                if (stored[55:48] != 0 && stored[55:48] != hdr.inca.words) {
                    drop_as(DROP_REPLAY_MISFIT);
                } else {
                    if (stored[55:48] == 0) {
                        remove_words();
                    } else {
                        load_stored_words();
                    }
                    hdr.inca.tag           = stored[95:64];
                    hdr.inca.flags         = stored[63:56];
                    hdr.inca.contributions = stored[47:32];
                    hdr.inca.exp_max       = stored[31:16];
                    hdr.inca.exp_min       = stored[15:0];
                    hdr.inca.opcode = OPCODE_RESULT;
                    hdr.inca.plane = PLANE_BOTH;
                    hdr.inca.bias = 0;
                    answer_child();
                    meta.event = EVENT_REPLAY;
                }
            } else if (current == 1 && done == 0) {
                // Its bit is set already.
                if (full == 0) {
                    drop_as(DROP_DUPLICATE);
                } else if (now - meta.slot.resent_at < meta.tree.resend_interval) {
                    drop_as(DROP_RESEND_LIMITED);
                } else if (meta.slot.flags == 0 && meta.slot.words != hdr.inca.words) {
                    drop_as(DROP_REPLAY_MISFIT);
                } else {
                    // The sum or the result was lost above: the stored sum again, both planes.
                    sum_flags();
                    if (hdr.inca.flags == 0) {
                        load_sum();
                    } else {
                        remove_words();
                    }
                    send_sum_up();
                    save_slot();
                    meta.event = EVENT_RESEND;
                }
            } else {
                drop_as(DROP_BAD_SEQUENCE);
            }
        }
    }
}

#endif
