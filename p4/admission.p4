// Which slot a packet may touch: only what the controller installed.

#ifndef INCA_ADMISSION
#define INCA_ADMISSION

// What the sender is to this switch. 0: not a member.
const bit<8> ROLE_HOST_CHILD   = 1;  // a host, like every other child of this switch in this tree
const bit<8> ROLE_MIXED_HOST   = 2;  // a host, where other children are switches
const bit<8> ROLE_SWITCH_CHILD = 3;
const bit<8> ROLE_PARENT       = 4;

// Leaves meta.event at EVENT_NONE if all is well, otherwise at the reason for the drop.
control Admission(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    bit<16> length;

    // The three lengths must say what `words` says.
    action check_packet() {
        length = IPV4_BYTES + UDP_BYTES + INCA_BYTES + (bit<16>)hdr.inca.words * WORD_BYTES;
        meta.member_key = hdr.inca.member;
        if (hdr.inca.opcode == OPCODE_RESULT) {
            meta.member_key = PARENT_MEMBER;
        }
        if (standard_metadata.parser_error != error.NoError) {
            meta.event = DROP_PARSER_ERROR;
        } else if (hdr.ipv4.total_length != length || hdr.udp.length != length - IPV4_BYTES
                   || standard_metadata.packet_length != ETHERNET_BYTES + (bit<32>)length) {
            meta.event = DROP_BAD_LENGTH;
        } else if (hdr.inca.version != INCA_VERSION) {
            meta.event = DROP_BAD_VERSION;
        }
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

    // A member's parameters, the same for all members of a tree but for the last two: where the tree's slots are (`words`:
    // room per slot), its format, all its children, its size, its multicast groups (up_group 0: this switch is the root).
#define PARAMETERS \
        bit<32> generation, bit<32> slots, bit<32> first_slot, bit<32> first_word, bit<8> words, bit<8> format, bit<8> lane_bits, \
        bit<16> guard, bit<64> all_children, bit<16> world, bit<16> up_group, bit<16> down_group, bit<32> resend_interval, \
        bit<64> child, bit<16> replica

    // A wrong entry must not reach beyond the registers: an optimised BMv2 does not check their indices.
#define ADMIT(the_role) \
        meta.slot_index = first_slot + hdr.inca.slot; \
        meta.word_index = first_word + hdr.inca.slot * (bit<32>)words; \
        if (hdr.inca.generation != generation) { \
            meta.event = DROP_STALE_GENERATION; \
        } else if (hdr.inca.slot >= slots || meta.slot_index >= SLOTS || meta.word_index > SLOT_WORDS - MAX_WORDS) { \
            meta.event = DROP_BAD_SLOT; \
        } else if (hdr.inca.format != format || hdr.inca.words > words) { \
            meta.event = DROP_BAD_FORMAT; \
        } else { \
            meta.role = the_role; \
            meta.generation = generation; \
            meta.format = format; \
            meta.lane_bits = lane_bits; \
            meta.guard = guard; \
            meta.all_children = all_children; \
            meta.world = world; \
            meta.up_group = up_group; \
            meta.down_group = down_group; \
            meta.resend_interval = resend_interval; \
            meta.child = child; \
            meta.replica = replica; \
        }

    @name(".host_child")
    action host_child(PARAMETERS) {
        ADMIT(ROLE_HOST_CHILD)
    }

    @name(".mixed_host_child")
    action mixed_host_child(PARAMETERS) {
        ADMIT(ROLE_MIXED_HOST)
    }

    @name(".switch_child")
    action switch_child(PARAMETERS) {
        ADMIT(ROLE_SWITCH_CHILD)
    }

    // `child` and `replica` are 0.
    @name(".parent")
    action parent(PARAMETERS) {
        ADMIT(ROLE_PARENT)
    }

    // Children and the parent (member 0xFFFF) of every tree, at the port they are reached by. Filled by the controller.
    @name(".membership")
    table membership {
        key = {
            hdr.inca.tree_id: exact @name("tree_id");
            standard_metadata.ingress_port: exact @name("ingress_port");
            meta.member_key: exact @name("member");
        }
        actions = { host_child; mixed_host_child; switch_child; parent; @defaultonly NoAction; }
        default_action = NoAction();
        size = 16384;
    }

    action unknown_tree() {
        meta.event = DROP_UNKNOWN_TREE;
    }

    action not_admitted() {
        meta.event = DROP_NOT_ADMITTED;
    }

    apply {
        check_packet();
        if (meta.event == EVENT_NONE) {
            if (!membership.apply().hit) {
                if (tree.apply().hit) {
                    not_admitted();
                } else {
                    unknown_tree();
                }
            }
        }
    }
#undef PARAMETERS
#undef ADMIT
}

#endif
