//! Words of 2048 bits, p4c's widest: what a program that treats them as vector registers mostly computes on. All of a word is read
//! before any of the result is written, so operands may overlap as they like, and the loops become vector instructions.

/// Limbs of a word.
pub(super) const LIMBS: usize = 32;

/// The limbs, lowest first. Aligned like a vector, so that it never lies across two cache lines where the compiler puts it aside.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub(super) struct Word([u64; LIMBS]);

#[inline(always)]
pub(super) fn load(mem: &[u64], at: usize) -> Word {
    let mut word = Word([0; LIMBS]);
    word.0.copy_from_slice(&mem[at..at + LIMBS]);
    word
}

#[inline(always)]
pub(super) fn store(mem: &mut [u64], at: usize, word: &Word) {
    mem[at..at + LIMBS].copy_from_slice(&word.0);
}

#[inline(always)]
pub(super) fn zip(x: &Word, y: &Word, f: impl Fn(u64, u64) -> u64) -> Word {
    // Not `array::from_fn`, which the compiler leaves as a call.
    let mut z = Word([0; LIMBS]);
    for i in 0..LIMBS {
        z.0[i] = f(x.0[i], y.0[i]);
    }
    z
}

/// `x + y`, if no limb carries into the next: the rule with lanes that keep to themselves.
#[inline(always)]
pub(super) fn add(x: &Word, y: &Word) -> Option<Word> {
    let sum = zip(x, y, u64::wrapping_add);
    let carries = sum.0.iter().zip(&x.0).fold(false, |any, (s, x)| any | (s < x));
    (!carries).then_some(sum)
}

/// `x - y`, if no limb borrows from the next.
#[inline(always)]
pub(super) fn sub(x: &Word, y: &Word) -> Option<Word> {
    let borrows = x.0.iter().zip(&y.0).fold(false, |any, (x, y)| any | (x < y));
    (!borrows).then(|| zip(x, y, u64::wrapping_sub))
}

/// `x << count`; `count` is below 64.
#[inline(always)]
pub(super) fn shift_left(x: &Word, count: u64) -> Word {
    let mut z = Word([0; LIMBS]);
    z.0[0] = x.0[0] << count;
    for i in 1..LIMBS {
        z.0[i] = (x.0[i] << count) | (x.0[i - 1] >> 1 >> (63 - count));
    }
    z
}

/// `x >> count`; `count` is below 64.
#[inline(always)]
pub(super) fn shift_right(x: &Word, count: u64) -> Word {
    let mut z = Word([0; LIMBS]);
    for i in 0..LIMBS - 1 {
        z.0[i] = (x.0[i] >> count) | (x.0[i + 1] << 1 << (63 - count));
    }
    z.0[LIMBS - 1] = x.0[LIMBS - 1] >> count;
    z
}

/// [`shift_left`] with the neighbours taken from registers: reloading them from one limb beside where they were just stored stalls.
///
/// # Safety
/// The processor has AVX-512F.
#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn shift_left_avx512(x: &Word, count: u64) -> Word {
    use std::arch::x86_64::*;
    let (up, down) = (_mm512_set1_epi64(count as i64), _mm512_set1_epi64(64 - count as i64));
    let mut z = Word([0; LIMBS]);
    let mut before = _mm512_setzero_si512();
    for i in (0..LIMBS).step_by(8) {
        // SAFETY: eight limbs from `i` on are in both arrays.
        let line = unsafe { _mm512_loadu_si512(x.0.as_ptr().add(i).cast()) };
        let below = _mm512_alignr_epi64::<7>(line, before);
        // A shift by 64 gives 0.
        let sum = _mm512_or_si512(_mm512_sllv_epi64(line, up), _mm512_srlv_epi64(below, down));
        // SAFETY: as above.
        unsafe { _mm512_storeu_si512(z.0.as_mut_ptr().add(i).cast(), sum) };
        before = line;
    }
    z
}

/// [`shift_right`] likewise.
///
/// # Safety
/// The processor has AVX-512F.
#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn shift_right_avx512(x: &Word, count: u64) -> Word {
    use std::arch::x86_64::*;
    let (down, up) = (_mm512_set1_epi64(count as i64), _mm512_set1_epi64(64 - count as i64));
    let mut z = Word([0; LIMBS]);
    let mut after = _mm512_setzero_si512();
    for i in (0..LIMBS).step_by(8).rev() {
        // SAFETY: eight limbs from `i` on are in both arrays.
        let line = unsafe { _mm512_loadu_si512(x.0.as_ptr().add(i).cast()) };
        let above = _mm512_alignr_epi64::<1>(after, line);
        // A shift by 64 gives 0.
        let sum = _mm512_or_si512(_mm512_srlv_epi64(line, down), _mm512_sllv_epi64(above, up));
        // SAFETY: as above.
        unsafe { _mm512_storeu_si512(z.0.as_mut_ptr().add(i).cast(), sum) };
        after = line;
    }
    z
}

#[cfg(test)]
mod tests;
