// FOR_EACH_WORD(n, OP): OP(0), OP(1), ... OP(n - 1) for a run-time n up to MAX_WORDS.
// Nested, so that a packet of five words pays for five words and one comparison.

#ifndef INCA_WORDS
#define INCA_WORDS

#define FOR_EACH_WORD(n, OP) \
    if (n > 0) { OP(0) \
    if (n > 1) { OP(1) \
    if (n > 2) { OP(2) \
    if (n > 3) { OP(3) \
    if (n > 4) { OP(4) \
    if (n > 5) { OP(5) \
    if (n > 6) { OP(6) \
    if (n > 7) { OP(7) \
    if (n > 8) { OP(8) \
    if (n > 9) { OP(9) \
    if (n > 10) { OP(10) \
    if (n > 11) { OP(11) \
    if (n > 12) { OP(12) \
    if (n > 13) { OP(13) \
    if (n > 14) { OP(14) \
    if (n > 15) { OP(15) \
    if (n > 16) { OP(16) \
    if (n > 17) { OP(17) \
    if (n > 18) { OP(18) \
    if (n > 19) { OP(19) \
    if (n > 20) { OP(20) \
    if (n > 21) { OP(21) \
    if (n > 22) { OP(22) \
    if (n > 23) { OP(23) \
    if (n > 24) { OP(24) \
    if (n > 25) { OP(25) \
    if (n > 26) { OP(26) \
    if (n > 27) { OP(27) \
    if (n > 28) { OP(28) \
    if (n > 29) { OP(29) \
    if (n > 30) { OP(30) \
    if (n > 31) { OP(31) \
    }}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}

#endif
