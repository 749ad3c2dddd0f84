// The words of a packet.
//
// A packet of n words is parsed into headers of 16, 8, 4, 2 and 1 words, those that the bits of n name, largest first; n = 32 takes all
// of them and one more. BMv2 pays for each header of a program in each packet, valid or not: a stack of 32 would cost more than
// the additions on 5 words.

#ifndef INCA_WORDS
#define INCA_WORDS

header words_16_t {
    word_t w0; word_t w1; word_t w2; word_t w3; word_t w4; word_t w5; word_t w6; word_t w7;
    word_t w8; word_t w9; word_t w10; word_t w11; word_t w12; word_t w13; word_t w14; word_t w15;
}
header words_8_t { word_t w0; word_t w1; word_t w2; word_t w3; word_t w4; word_t w5; word_t w6; word_t w7; }
header words_4_t { word_t w0; word_t w1; word_t w2; word_t w3; }
header words_2_t { word_t w0; word_t w1; }
header words_1_t { word_t w0; }

// A packet's words: its headers in order.
#define WORDS \
    words_16_t words_16; words_8_t words_8; words_4_t words_4; words_2_t words_2; words_1_t words_1; words_1_t words_32nd;

#define FOR_EACH_HEADER(OP) OP(16) OP(8) OP(4) OP(2) OP(1) OP(32nd)

// OP(part, k) for each word of the packet: word k of the header hdr.words_<part>. The order is that in which registers hold the words, not the
// packet's.
#define FOR_EACH_WORD(OP) \
    if (hdr.inca.words >= 8) { \
        if (hdr.words_16.isValid()) { \
            OP(16, 0) OP(16, 1) OP(16, 2) OP(16, 3) OP(16, 4) OP(16, 5) OP(16, 6) OP(16, 7) \
            OP(16, 8) OP(16, 9) OP(16, 10) OP(16, 11) OP(16, 12) OP(16, 13) OP(16, 14) OP(16, 15) \
        } \
        if (hdr.words_8.isValid()) { OP(8, 0) OP(8, 1) OP(8, 2) OP(8, 3) OP(8, 4) OP(8, 5) OP(8, 6) OP(8, 7) } \
        if (hdr.words_32nd.isValid()) { OP(32nd, 0) } \
    } \
    if (hdr.words_4.isValid()) { OP(4, 0) OP(4, 1) OP(4, 2) OP(4, 3) } \
    if (hdr.words_2.isValid()) { OP(2, 0) OP(2, 1) } \
    if (hdr.words_1.isValid()) { OP(1, 0) }

#define WORD(part, k) hdr.words_##part.w##k

// On to the next word's place in the registers.
#define NEXT meta.index = meta.index + 1;

#endif
