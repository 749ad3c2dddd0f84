// A packet of a reduction tree: from its slot's scalars (slot.p4) to its words (accumulate.p4), and, where it completes a sum or asks
// for one, to the packets that the switch sends.

#ifndef INCA_REDUCTION
#define INCA_REDUCTION

control Reduction(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    // The current sequence of each slot. An array for each scalar: BMv2 takes longer to pack several into one and to unpack them than to
    // read and write them apart. The planes of a slot have their own, as their sums may be at different children.
    @name(".operations")   register<operation_t, slot_index_t>(SLOTS) operations;
    @name(".resent_at")    register<bit<32>, slot_index_t>(SLOTS) resent_at;
    @name(".low_arrived")  register<arrived_t, slot_index_t>(SLOTS) low_arrived;
    @name(".high_arrived") register<arrived_t, slot_index_t>(SLOTS) high_arrived;
    @name(".low_bias")     register<bit<64>, slot_index_t>(SLOTS) low_bias;
    @name(".high_bias")    register<bit<64>, slot_index_t>(SLOTS) high_bias;
    @name(".low_exp_max")  register<bit<16>, slot_index_t>(SLOTS) low_exp_max;
    @name(".high_exp_max") register<bit<16>, slot_index_t>(SLOTS) high_exp_max;
    @name(".low_exp_min")  register<bit<16>, slot_index_t>(SLOTS) low_exp_min;
    @name(".high_exp_min") register<bit<16>, slot_index_t>(SLOTS) high_exp_min;
    // Scalars and words of the last finished sequence. Apart from the current one, so that a child that missed the result can
    // still be answered when its siblings have moved on.
    @name(".stored_scalars") register<bit<96>, slot_index_t>(SLOTS) stored_scalars;
    @name(".stored_words")   register<word_t, word_index_t>(SLOT_WORDS) stored_words;

    Slot(operations, resent_at, low_arrived, high_arrived, low_bias, high_bias, low_exp_max, high_exp_max, low_exp_min, high_exp_min) slot;
    Accumulate() accumulate;
    Round(stored_words) round;

    bit<96> stored;

    action remove_words() {
#define OP(part) hdr.words_##part.setInvalid();
        FOR_EACH_HEADER(OP)
#undef OP
        hdr.inca.words = 0;
        hdr.udp.length = UDP_BYTES + INCA_BYTES;
        hdr.ipv4.total_length = IPV4_BYTES + UDP_BYTES + INCA_BYTES;
    }

    // The packet becomes the slot's sum: every field from the slot, none from the packet that happened to come last.
    action become_sum() {
        if (meta.exp_max != EXP_MAX_OF_ZERO && meta.exp_max - meta.exp_min > meta.guard) {
            meta.operation = meta.operation | (operation_t)FLAG_RANGE;
            operations.write(meta.slot_index, meta.operation);
        }
        hdr.inca.contributions = meta.low_arrived[79:64];
        hdr.inca.flags = OPERATION_FLAGS;
        if (hdr.inca.flags & FLAG_MISMATCH == 0) {
            hdr.inca.tag = OPERATION_TAG;
            hdr.inca.exp_max = meta.exp_max;
            hdr.inca.exp_min = meta.exp_min;
        } else {
            hdr.inca.flags = FLAG_MISMATCH;
            hdr.inca.tag = 0;
            hdr.inca.exp_max = EXP_MAX_OF_ZERO;
            hdr.inca.exp_min = EXP_MIN_OF_ZERO;
        }
        if (hdr.inca.flags == 0) {
            hdr.inca.bias = meta.bias;
        } else {
            // What is not added has no bias.
            hdr.inca.bias = 0;
            remove_words();
        }
        resent_at.write(meta.slot_index, (bit<32>)standard_metadata.ingress_global_timestamp);
    }

    // Finished: the packet, now the result, is stored.
    action store_result() {
        meta.operation = meta.operation | (operation_t)FLAG_DONE;
        operations.write(meta.slot_index, meta.operation);
        hdr.inca.plane = PLANE_BOTH;
        hdr.inca.bias = 0;
        stored = hdr.inca.tag ++ hdr.inca.flags ++ hdr.inca.words ++ hdr.inca.contributions
            ++ hdr.inca.exp_max ++ hdr.inca.exp_min;
        stored_scalars.write(meta.slot_index, stored);
    }

    // The root's sum, rounded or found not to fit.
    action finish() {
        if (hdr.inca.flags != 0) {
            remove_words();
        }
        store_result();
    }

    action pass_result() {
        meta.index = meta.word_index;
#define OP(part, k) \
        stored_words.write(meta.index, WORD(part, k)); \
        NEXT
        FOR_EACH_WORD(OP)
#undef OP
        store_result();
    }

    action replay() {
        stored_scalars.read(stored, meta.slot_index);
        if (stored[55:48] == 0) {
            remove_words();
        } else if (stored[55:48] == hdr.inca.words) {
            meta.index = meta.word_index;
#define OP(part, k) \
            stored_words.read(WORD(part, k), meta.index); \
            NEXT
            FOR_EACH_WORD(OP)
#undef OP
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
        standard_metadata.egress_spec = standard_metadata.ingress_port;
    }

    action reply_to_probe() {
        remove_words();
        hdr.inca.opcode        = OPCODE_PROBE_REPLY;
        hdr.inca.plane         = PLANE_BOTH;
        hdr.inca.flags         = OPERATION_FLAGS;
        hdr.inca.sequence      = OPERATION_SEQUENCE;
        hdr.inca.tag           = OPERATION_TAG;
        hdr.inca.contributions = meta.low_arrived[79:64];
        hdr.inca.exp_max       = meta.exp_max;
        hdr.inca.exp_min       = meta.exp_min;
        hdr.inca.bias          = meta.low_arrived[63:0];
        standard_metadata.egress_spec = standard_metadata.ingress_port;
    }

    // What every packet of the switch's own looks like; its receiver's addresses come in the egress.
    action renew_headers() {
        hdr.udp.src_port              = INCA_UDP_PORT;
        hdr.udp.checksum              = 0;
        hdr.ipv4.version_ihl_diffserv = IPV4_WITHOUT_OPTIONS;
        hdr.ipv4.fragmentation        = 0;
        hdr.ipv4.ttl                  = RESULT_TTL;
    }

    apply {
        slot.apply(hdr, meta, standard_metadata);
        if (meta.event == EVENT_CONTRIBUTION || meta.event == EVENT_COMPLETED) {
            accumulate.apply(hdr, meta);
        }
        if (meta.event >= EVENT_COMPLETED) {
            if (meta.event == EVENT_COMPLETED) {
                become_sum();
                if (hdr.inca.opcode == OPCODE_RESULT) {
                    if (hdr.inca.flags == 0) {
                        round.apply(hdr, meta);
                    }
                    finish();
                }
            } else if (meta.event == EVENT_RESULT) {
                pass_result();
            } else if (meta.event == EVENT_REPLAY) {
                replay();
            } else if (meta.event == EVENT_RESEND) {
                become_sum();
            } else if (meta.event == EVENT_PROBE) {
                reply_to_probe();
            }
            renew_headers();
        }
    }
}

#endif
