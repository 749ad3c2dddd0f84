// Which slot a packet may touch: only what the controller installed.

#ifndef INCA_ADMISSION
#define INCA_ADMISSION

// 0: not a member.
const bit<8> ROLE_HOST_CHILD   = 1;
const bit<8> ROLE_SWITCH_CHILD = 2;
const bit<8> ROLE_PARENT       = 3;

// Leaves meta.event at EVENT_NONE if all is well, otherwise at the reason for the drop.
control Admission(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    bit<16> length;
    bit<32> frame;

    // The three lengths must say what `words` says. A frame may be padded to the Ethernet minimum.
    action check_packet() {
        length = IPV4_BYTES + UDP_BYTES + INCA_BYTES + (bit<16>)hdr.inca.words * WORD_BYTES;
        frame = ETHERNET_BYTES + (bit<32>)length;
        meta.words = hdr.inca.words;
        meta.member_key = hdr.inca.member;
        if (hdr.inca.opcode == OPCODE_RESULT) {
            meta.member_key = PARENT_MEMBER;
        }
        if (standard_metadata.parser_error != error.NoError) {
            meta.event = DROP_PARSER_ERROR;
        } else if (hdr.ipv4.total_length != length || hdr.udp.length != length - IPV4_BYTES || hdr.inca.words > MAX_WORDS
                   || (standard_metadata.packet_length != frame
                       && (frame > ETHERNET_MIN_FRAME_BYTES || standard_metadata.packet_length > ETHERNET_MIN_FRAME_BYTES))) {
            meta.event = DROP_BAD_LENGTH;
        } else if (hdr.inca.version != INCA_VERSION) {
            meta.event = DROP_BAD_VERSION;
        }
    }

    @name(".unknown_tree")
    action unknown_tree() {
        meta.event = DROP_UNKNOWN_TREE;
    }

    @name(".set_tree")
    action set_tree(bit<32> generation, bit<32> slots, bit<32> first_slot, bit<32> first_word, bit<8> words,
                    bit<8> format, bit<8> lane_bits, bit<16> guard, bit<64> all_children, bit<16> world,
                    bit<1> is_root, bit<16> up_group, bit<16> down_group, bit<32> resend_interval) {
        meta.tree.format = format;
        meta.tree.lane_bits = lane_bits;
        meta.tree.guard = guard;
        meta.tree.all_children = all_children;
        meta.tree.world = world;
        meta.tree.is_root = is_root;
        meta.tree.up_group = up_group;
        meta.tree.down_group = down_group;
        meta.tree.resend_interval = resend_interval;
        meta.slot.generation = generation;
        meta.slot_index = first_slot + hdr.inca.slot;
        meta.result_index = first_word + hdr.inca.slot * (bit<32>)words;
        meta.accumulator_index = meta.result_index << 1;
        if (hdr.inca.generation != generation) {
            meta.event = DROP_STALE_GENERATION;
        } else if (hdr.inca.slot >= slots || meta.slot_index >= SLOTS || meta.result_index > RESULT_WORDS - MAX_WORDS) {
            // The last two would be a wrong entry. An optimised BMv2 does not check register indices, so this does.
            meta.event = DROP_BAD_SLOT;
        } else if (hdr.inca.format != format || hdr.inca.words > words) {
            meta.event = DROP_BAD_FORMAT;
        }
    }

    // One entry per tree that this switch takes part in. Filled by the controller.
    @name(".tree")
    table tree {
        key = { hdr.inca.tree_id: exact @name("tree_id"); }
        actions = { set_tree; @defaultonly unknown_tree; }
        default_action = unknown_tree();
        size = 1024;
    }

    @name(".host_child")
    action host_child(bit<64> child, bit<16> replica) {
        meta.role = ROLE_HOST_CHILD;
        meta.child = child;
        meta.replica = replica;
    }

    @name(".switch_child")
    action switch_child(bit<64> child, bit<16> replica) {
        meta.role = ROLE_SWITCH_CHILD;
        meta.child = child;
        meta.replica = replica;
    }

    @name(".parent")
    action parent() {
        meta.role = ROLE_PARENT;
    }

    @name(".not_admitted")
    action not_admitted() {
        meta.event = DROP_NOT_ADMITTED;
    }

    // Children (one bit each, and the replica id of copies to them) and the parent (member 0xFFFF) of every tree, at the port
    // they are reached by. Filled by the controller.
    @name(".membership")
    table membership {
        key = {
            hdr.inca.tree_id: exact @name("tree_id");
            standard_metadata.ingress_port: exact @name("ingress_port");
            meta.member_key: exact @name("member");
        }
        actions = { host_child; switch_child; parent; @defaultonly not_admitted; }
        default_action = not_admitted();
        size = 16384;
    }

    apply {
        check_packet();
        if (meta.event == EVENT_NONE) {
            tree.apply();
            if (meta.event == EVENT_NONE) {
                membership.apply();
            }
        }
    }
}

#endif
