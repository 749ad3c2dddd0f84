// The slot protocol: who may touch which slot, and what a packet does to it (docs/protocol.md, "What a switch keeps per slot").
//
// All of it happens inside the action of one table, whose parameters are all that the switch knows about a tree: on BMv2 each value
// copied to metadata, and each group of statements between two conditions of a control, costs more than the decision it serves
// (docs/performance.md).

#ifndef INCA_SLOT
#define INCA_SLOT

control Slot(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata)(
    register<operation_t, slot_index_t> operations,
    register<bit<32>, slot_index_t>     resent_at,
    register<arrived_t, slot_index_t> low_arrived, register<arrived_t, slot_index_t> high_arrived,
    register<bit<64>, slot_index_t>   low_bias,    register<bit<64>, slot_index_t>   high_bias,
    register<bit<16>, slot_index_t>   low_exp_max, register<bit<16>, slot_index_t>   high_exp_max,
    register<bit<16>, slot_index_t>   low_exp_min, register<bit<16>, slot_index_t>   high_exp_min)
{
#define READ_EXPONENTS(plane) \
        plane##_bias.read(meta.bias, meta.slot_index); \
        plane##_exp_max.read(meta.exp_max, meta.slot_index); \
        plane##_exp_min.read(meta.exp_min, meta.slot_index);
#define ARRIVE(plane) \
        meta.plane##_arrived = meta.plane##_arrived + (hdr.inca.contributions ++ child); \
        SAVE(plane)
#define SAVE(plane) \
        plane##_arrived.write(meta.slot_index, meta.plane##_arrived); \
        plane##_bias.write(meta.slot_index, meta.bias); \
        plane##_exp_max.write(meta.slot_index, meta.exp_max); \
        plane##_exp_min.write(meta.slot_index, meta.exp_min);

    // What differs between the roles of a sender: `host` (below this switch are hosts alone, so that both planes of a slot are in step
    // and the low one stands for both), `mixed` (a host, where other children are switches) and `switch`.
#define IS_CONTRIBUTION_host   (hdr.inca.opcode == OPCODE_CONTRIBUTION && hdr.inca.plane == PLANE_BOTH)
#define IS_CONTRIBUTION_mixed  IS_CONTRIBUTION_host
#define IS_CONTRIBUTION_switch (hdr.inca.opcode == OPCODE_PARTIAL && hdr.inca.plane < PLANE_BOTH)

#define IS_SINGLE_host   (hdr.inca.contributions == 1)
#define IS_SINGLE_mixed  IS_SINGLE_host
#define IS_SINGLE_switch (hdr.inca.plane < PLANE_BOTH)

#define READ_ARRIVED_host   low_arrived.read(meta.low_arrived, meta.slot_index);
#define READ_ARRIVED_mixed  READ_ARRIVED_host high_arrived.read(meta.high_arrived, meta.slot_index);
#define READ_ARRIVED_switch READ_ARRIVED_mixed

#define HAS_CONTRIBUTED_host   (meta.low_arrived & (arrived_t)child != 0)
#define HAS_CONTRIBUTED_mixed  HAS_CONTRIBUTED_host
#define HAS_CONTRIBUTED_switch \
        ((hdr.inca.plane == 0 && meta.low_arrived & (arrived_t)child != 0) \
         || (hdr.inca.plane != 0 && meta.high_arrived & (arrived_t)child != 0))

#define IS_FULL_host   (meta.low_arrived[63:0] == all_children)
#define IS_FULL_mixed  (meta.low_arrived[63:0] & meta.high_arrived[63:0] == all_children)
#define IS_FULL_switch IS_FULL_mixed

    // Of the plane that is met first. Of a full slot either will do: its planes have the same.
#define READ_host   READ_EXPONENTS(low)
#define READ_mixed  READ_EXPONENTS(low)
#define READ_switch if (hdr.inca.plane == 0) { READ_EXPONENTS(low) } else { READ_EXPONENTS(high) }

#define MEET_host \
        MEET_NARROW(low, ALIGN_BOTH) \
        meta.high.shift_packet = lane_bits - meta.low.shift_packet; \
        ARRIVE(low)
#define MEET_mixed \
        MEET_NARROW(low, 0) \
        ARRIVE(low) \
        READ_EXPONENTS(high) \
        MEET_NARROW(high, 0) \
        meta.high.shift_packet = lane_bits - meta.high.shift_packet; \
        ARRIVE(high)
#define MEET_switch \
        if (hdr.inca.plane == 0) { MEET_WIDE(low) ARRIVE(low) } else { MEET_WIDE(high) ARRIVE(high) }

    // Brings packet and accumulator of one plane to one exponent (docs/number-formats.md, "Alignment"). `bias_in` is what the packet
    // adds to the bias once shifted. Beyond the guard bits the sum will be flagged, so nothing is added any more.
    // The second comparison is 0 < packet's exponent <= slot's: EXP_MAX_OF_ZERO is 0, and 0 - 1 is above everything.
#define MEET(plane, clear_as, store_as, add_as, raise_as, first_shift, add_shift, bias_in) \
        if (hdr.inca.exp_min < meta.exp_min) { meta.exp_min = hdr.inca.exp_min; } \
        if (hdr.inca.flags != 0) { \
            if (hdr.inca.exp_max > meta.exp_max) { meta.exp_max = hdr.inca.exp_max; } \
        } else if (hdr.inca.exp_max - 1 < meta.exp_max) { \
            if (meta.exp_max - meta.exp_min <= guard) { \
                meta.how_##plane = add_as; \
                meta.plane.shift_packet = (bit<8>)(add_shift); \
                meta.bias = meta.bias + (bias_in); \
            } \
        } else if (hdr.inca.exp_max == EXP_MAX_OF_ZERO) { \
            if (meta.plane##_arrived == 0) { meta.how_##plane = clear_as; } \
        } else if (meta.exp_max == EXP_MAX_OF_ZERO) { \
            meta.how_##plane = store_as; \
            meta.plane.shift_packet = first_shift; \
            meta.bias = bias_in; \
            meta.exp_max = hdr.inca.exp_max; \
        } else { \
            if (hdr.inca.exp_max - meta.exp_min <= guard) { \
                meta.how_##plane = raise_as; \
                meta.plane.shift_packet = first_shift; \
                meta.plane.shift_accumulator = (bit<8>)(hdr.inca.exp_max - meta.exp_max); \
                meta.bias = (meta.bias >> meta.plane.shift_accumulator) + (bias_in); \
            } \
            meta.exp_max = hdr.inca.exp_max; \
        }
#define MEET_NARROW(plane, both) \
        MEET(plane, both + ALIGN_CLEAR, both + ALIGN_STORE, both + ALIGN_ADD, both + ALIGN_RAISE, (bit<8>)guard, \
             guard - (meta.exp_max - hdr.inca.exp_max), 64w1 << (lane_bits + meta.plane.shift_packet - 1))
#define MEET_WIDE(plane) \
        MEET(plane, ALIGN_CLEAR, ALIGN_STORE_PARTIAL, ALIGN_ADD_PARTIAL, ALIGN_RAISE_PARTIAL, 0, \
             meta.exp_max - hdr.inca.exp_max, hdr.inca.bias >> meta.plane.shift_packet)

    // What the switch knows about a tree: where its slots are (`words`: room per slot), its format, all its children, the multicast
    // group of finished sums (results at the root and from the parent, planes of the sum elsewhere), its own addresses.
#define TREE \
        bit<32> generation, bit<32> slots, bit<32> first_slot, bit<32> first_word, bit<8> words, bit<8> format, \
        bit<64> all_children, bit<16> group, mac_addr_t own_mac, ipv4_addr_t own_ip
#define MEMBER bit<16> guard, bit<1> is_root, bit<32> resend_interval, bit<64> child, bit<16> replica

    // Indices are as narrow as the registers are large, so that no entry and no packet reaches beyond them.
#define REFUSE_OR \
        meta.slot_index = (slot_index_t)(first_slot + hdr.inca.slot); \
        meta.word_index = (word_index_t)(first_word + hdr.inca.slot * (bit<32>)words); \
        if (hdr.inca.generation != generation || hdr.inca.slot >= slots || hdr.inca.format != format || hdr.inca.words > words) { \
            if (hdr.inca.generation != generation) { \
                meta.event = DROP_STALE_GENERATION; \
            } else if (hdr.inca.slot >= slots) { \
                meta.event = DROP_BAD_SLOT; \
            } else { \
                meta.event = DROP_BAD_FORMAT; \
            } \
        } else

    // A packet of this switch's own is about to be made of this one.
#define SEND(the_event) \
        meta.event = the_event; \
        hdr.ethernet.src_addr = own_mac; \
        hdr.ipv4.src_addr = own_ip;
#define SEND_SUM(the_event) \
        SEND(the_event) \
        meta.guard = guard; \
        standard_metadata.mcast_grp = group; \
        if (is_root == 1) { hdr.inca.opcode = OPCODE_RESULT; } else { hdr.inca.opcode = OPCODE_PARTIAL; }

    // A slot last used by another generation counts as at sequence 0, finished, with nothing stored: sequence 1 may begin.
#define FORGET_OTHER_GENERATION \
        if (OPERATION_GENERATION != generation) { \
            meta.operation = generation ++ 72w0 ++ FLAG_DONE; \
            meta.low_arrived = 0; \
            meta.high_arrived = 0; \
        }
#define IS_DONE (meta.operation & (operation_t)FLAG_DONE != 0)

    // The table of the protocol document, but for results. The first branch is the usual case: one more contribution to an operation
    // under way, to which nothing is wrong.
#define TAKE(role) \
        REFUSE_OR { \
            operations.read(meta.operation, meta.slot_index); \
            READ_ARRIVED_##role \
            if (meta.operation == generation ++ hdr.inca.sequence ++ hdr.inca.tag ++ hdr.inca.words ++ hdr.inca.flags \
                && hdr.inca.flags == 0 && hdr.inca.words != 0 \
                && IS_CONTRIBUTION_##role && IS_SINGLE_##role && !HAS_CONTRIBUTED_##role) { \
                meta.event = EVENT_CONTRIBUTION; \
                READ_##role \
            } else { \
                FORGET_OTHER_GENERATION \
                if (IS_CONTRIBUTION_##role) { \
                    if (hdr.inca.flags & ~FLAGS_OF_SENDERS != 0 || (hdr.inca.flags == 0) == (hdr.inca.words == 0) || !IS_SINGLE_##role) { \
                        meta.event = DROP_BAD_FORMAT; \
                    } else if (IS_DONE && hdr.inca.sequence == OPERATION_SEQUENCE + 1) { \
                        meta.event = EVENT_CONTRIBUTION; \
                        meta.operation = generation ++ hdr.inca.sequence ++ hdr.inca.tag ++ hdr.inca.words ++ hdr.inca.flags; \
                        operations.write(meta.slot_index, meta.operation); \
                        meta.low_arrived = 0; \
                        meta.exp_min = EXP_MIN_OF_ZERO; \
                        BEGIN_##role \
                    } else if (!IS_DONE && hdr.inca.sequence == OPERATION_SEQUENCE) { \
                        if (HAS_CONTRIBUTED_##role) { \
                            resent_at.read(meta.scratch, meta.slot_index); \
                            if (!IS_FULL_##role) { \
                                meta.event = DROP_DUPLICATE; \
                            } else if ((bit<32>)standard_metadata.ingress_global_timestamp - meta.scratch < resend_interval) { \
                                meta.event = DROP_RESEND_LIMITED; \
                            } else if (OPERATION_WORDS != hdr.inca.words && OPERATION_FLAGS == 0) { \
                                meta.event = DROP_REPLAY_MISFIT; \
                            } else { \
                                READ_##role \
                                SEND_SUM(EVENT_RESEND) \
                            } \
                        } else { \
                            meta.event = EVENT_CONTRIBUTION; \
                            READ_##role \
                            if (hdr.inca.tag != OPERATION_TAG \
                                || (OPERATION_WORDS != 0 && hdr.inca.words != 0 && OPERATION_WORDS != hdr.inca.words)) { \
                                hdr.inca.flags = FLAG_MISMATCH; \
                                hdr.inca.words = 0; \
                                hdr.inca.exp_max = EXP_MAX_OF_ZERO; \
                                hdr.inca.exp_min = EXP_MIN_OF_ZERO; \
                            } \
                            meta.operation = meta.operation | (operation_t)(hdr.inca.words ++ hdr.inca.flags); \
                            operations.write(meta.slot_index, meta.operation); \
                        } \
                    } else if (hdr.inca.sequence != 0 \
                               && (hdr.inca.sequence == OPERATION_SEQUENCE \
                                   || (!IS_DONE && hdr.inca.sequence + 1 == OPERATION_SEQUENCE))) { \
                        SEND(EVENT_REPLAY) \
                        meta.replica = replica; \
                    } else { \
                        meta.event = DROP_BAD_SEQUENCE; \
                    } \
                } else if (hdr.inca.opcode == OPCODE_PROBE) { \
                    SEND(EVENT_PROBE) \
                    meta.replica = replica; \
                    meta.exp_min = EXP_MIN_OF_ZERO; \
                    if (OPERATION_SEQUENCE != 0) { READ_EXPONENTS(low) } \
                    PROBE_##role \
                } else { \
                    meta.event = DROP_BAD_OPCODE; \
                } \
            } \
            if (meta.event == EVENT_CONTRIBUTION) { \
                MEET_##role \
                if (IS_FULL_##role) { SEND_SUM(EVENT_COMPLETED) } \
            } \
        }
    // The other plane is empty too when a sequence begins.
#define BEGIN_host
#define BEGIN_mixed \
        meta.high_arrived = 0; \
        SAVE(high)
#define BEGIN_switch \
        BEGIN_mixed \
        SAVE(low)
    // A probe asks who has contributed in both planes.
#define PROBE_host
#define PROBE_mixed  meta.low_arrived = meta.low_arrived[79:64] ++ (meta.low_arrived[63:0] & meta.high_arrived[63:0]);
#define PROBE_switch PROBE_mixed

    @name(".host_child")
    action host_child(TREE, MEMBER, bit<8> lane_bits) {
        TAKE(host)
    }

    @name(".mixed_host_child")
    action mixed_host_child(TREE, MEMBER, bit<8> lane_bits) {
        TAKE(mixed)
    }

    @name(".switch_child")
    action switch_child(TREE, MEMBER) {
        TAKE(switch)
    }

    // The switch above. `mixed`: there are switches among the children, so that both planes count.
    @name(".parent")
    action parent(TREE, bit<16> world, bit<1> mixed) {
        REFUSE_OR {
            operations.read(meta.operation, meta.slot_index);
            low_arrived.read(meta.low_arrived, meta.slot_index);
            high_arrived.read(meta.high_arrived, meta.slot_index);
            if (hdr.inca.opcode != OPCODE_RESULT) {
                meta.event = DROP_BAD_OPCODE;
            } else if (OPERATION_GENERATION == generation && hdr.inca.sequence == OPERATION_SEQUENCE && !IS_DONE
                       && IS_FULL_host && (mixed == 0 || IS_FULL_mixed) && hdr.inca.contributions == world
                       && ((hdr.inca.flags == 0 && hdr.inca.words == OPERATION_WORDS) || (hdr.inca.flags != 0 && hdr.inca.words == 0))) {
                SEND(EVENT_RESULT)
                standard_metadata.mcast_grp = group;
            } else {
                meta.event = DROP_RESULT_IGNORED;
            }
        }
    }

    // Children and the parent (member 0xFFFF) of every tree, at the port they are reached by. Filled by the controller.
    @name(".membership")
    table membership {
        key = {
            hdr.inca.tree_id: exact @name("tree_id");
            standard_metadata.ingress_port: exact @name("ingress_port");
            hdr.inca.member: exact @name("member");
        }
        actions = { host_child; mixed_host_child; switch_child; parent; @defaultonly NoAction; }
        default_action = NoAction();
        size = 16384;
    }

    // One entry per tree that this switch takes part in, asked only for the reason why a packet is not admitted. Filled by the
    // controller.
    @name(".tree")
    table tree {
        key = { hdr.inca.tree_id: exact @name("tree_id"); }
        actions = { NoAction; }
        default_action = NoAction();
        size = 1024;
    }

    action unknown_tree() {
        meta.event = DROP_UNKNOWN_TREE;
    }

    action not_admitted() {
        meta.event = DROP_NOT_ADMITTED;
    }

    // The three lengths must say what `words` says.
#define LENGTHS_AGREE \
        (hdr.udp.length == UDP_BYTES + INCA_BYTES + ((bit<16>)hdr.inca.words << WORD_BYTES_LOG2) \
         && hdr.ipv4.total_length == hdr.udp.length + IPV4_BYTES \
         && standard_metadata.packet_length == (bit<32>)hdr.ipv4.total_length + ETHERNET_BYTES)

    action malformed() {
        if (standard_metadata.parser_error != error.NoError) {
            meta.event = DROP_PARSER_ERROR;
        } else if (!LENGTHS_AGREE) {
            meta.event = DROP_BAD_LENGTH;
        } else {
            meta.event = DROP_BAD_VERSION;
        }
    }

    // Leaves in meta.event what becomes of the packet, never EVENT_NONE.
    apply {
        if (standard_metadata.parser_error == error.NoError && hdr.inca.version == INCA_VERSION && LENGTHS_AGREE) {
            if (!membership.apply().hit) {
                if (tree.apply().hit) {
                    not_admitted();
                } else {
                    unknown_tree();
                }
            }
        } else {
            malformed();
        }
    }
}

#endif
