//! Arithmetic on values of several limbs inside the packet's memory. The destination may equal an operand; other overlaps
//! do not come from lowering, but give some value all the same, never a panic.

use std::cmp::Ordering;

/// `d[i] = f(a[i], b[i])`.
#[inline(always)]
pub(super) fn zip(mem: &mut [u64], d: usize, a: usize, b: usize, n: usize, f: impl Fn(u64, u64) -> u64) {
    if d == a {
        if let Ok([x, y]) = mem.get_disjoint_mut([d..d + n, b..b + n]) {
            for (x, y) in x.iter_mut().zip(&*y) {
                *x = f(*x, *y);
            }
            return;
        }
    } else if d == b {
        if let Ok([x, y]) = mem.get_disjoint_mut([d..d + n, a..a + n]) {
            for (x, y) in x.iter_mut().zip(&*y) {
                *x = f(*y, *x);
            }
            return;
        }
    } else if let Ok([z, x, y]) = mem.get_disjoint_mut([d..d + n, a..a + n, b..b + n]) {
        for ((z, x), y) in z.iter_mut().zip(&*x).zip(&*y) {
            *z = f(*x, *y);
        }
        return;
    }
    for i in 0..n {
        mem[d + i] = f(mem[a + i], mem[b + i]);
    }
}

/// Limbs that one round of a carry chain takes: between them the carry stays in the processor's flag.
const ROUND: usize = 8;

/// `z[i] = f(x[i], y[i], carry)`, the carry passed on from limb to limb.
#[inline(always)]
fn chain3(z: &mut [u64], x: &[u64], y: &[u64], f: impl Fn(u64, u64, u8) -> (u64, u8)) {
    let mut carry = 0;
    let (z_rounds, z_rest) = z.as_chunks_mut::<ROUND>();
    let (x_rounds, x_rest) = x.as_chunks::<ROUND>();
    let (y_rounds, y_rest) = y.as_chunks::<ROUND>();
    for ((z, x), y) in z_rounds.iter_mut().zip(x_rounds).zip(y_rounds) {
        for i in 0..ROUND {
            (z[i], carry) = f(x[i], y[i], carry);
        }
    }
    for ((z, x), y) in z_rest.iter_mut().zip(x_rest).zip(y_rest) {
        (*z, carry) = f(*x, *y, carry);
    }
}

/// The same in place of `x`.
#[inline(always)]
fn chain2(x: &mut [u64], y: &[u64], f: impl Fn(u64, u64, u8) -> (u64, u8)) {
    let mut carry = 0;
    let (x_rounds, x_rest) = x.as_chunks_mut::<ROUND>();
    let (y_rounds, y_rest) = y.as_chunks::<ROUND>();
    for (x, y) in x_rounds.iter_mut().zip(y_rounds) {
        for i in 0..ROUND {
            (x[i], carry) = f(x[i], y[i], carry);
        }
    }
    for (x, y) in x_rest.iter_mut().zip(y_rest) {
        (*x, carry) = f(*x, *y, carry);
    }
}

#[inline(always)]
fn carry_chain(
    mem: &mut [u64],
    d: usize,
    a: usize,
    b: usize,
    n: usize,
    f: impl Fn(u64, u64, u8) -> (u64, u8),
) {
    if d == a {
        if let Ok([x, y]) = mem.get_disjoint_mut([d..d + n, b..b + n]) {
            return chain2(x, y, f);
        }
    } else if d == b {
        if let Ok([x, y]) = mem.get_disjoint_mut([d..d + n, a..a + n]) {
            return chain2(x, y, |x, y, carry| f(y, x, carry));
        }
    } else if let Ok([z, x, y]) = mem.get_disjoint_mut([d..d + n, a..a + n, b..b + n]) {
        return chain3(z, x, y, f);
    }
    let mut carry = 0;
    for i in 0..n {
        (mem[d + i], carry) = f(mem[a + i], mem[b + i], carry);
    }
}

/// `x + y + carry` (0 or 1) and the carry out. The intrinsic keeps the carry in the processor's flag, which the compiler does not
/// find by itself.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn add_limb(x: u64, y: u64, carry: u8) -> (u64, u8) {
    let mut sum = 0;
    let carry = std::arch::x86_64::_addcarry_u64(carry, x, y, &mut sum);
    (sum, carry)
}

#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
fn add_limb(x: u64, y: u64, carry: u8) -> (u64, u8) {
    let (sum, c1) = x.overflowing_add(y);
    let (sum, c2) = sum.overflowing_add(u64::from(carry));
    (sum, u8::from(c1 | c2))
}

/// `x - y - borrow` (0 or 1) and the borrow out.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn sub_limb(x: u64, y: u64, borrow: u8) -> (u64, u8) {
    let mut difference = 0;
    let borrow = std::arch::x86_64::_subborrow_u64(borrow, x, y, &mut difference);
    (difference, borrow)
}

#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
fn sub_limb(x: u64, y: u64, borrow: u8) -> (u64, u8) {
    let (difference, b1) = x.overflowing_sub(y);
    let (difference, b2) = difference.overflowing_sub(u64::from(borrow));
    (difference, u8::from(b1 | b2))
}

/// Adds `y` to `x`, modulo the width they share.
pub(super) fn add_to(x: &mut [u64], y: &[u64]) {
    chain2(x, y, add_limb);
}

#[inline(never)]
pub(super) fn add(mem: &mut [u64], d: usize, a: usize, b: usize, n: usize) {
    carry_chain(mem, d, a, b, n, add_limb);
}

#[inline(never)]
pub(super) fn sub(mem: &mut [u64], d: usize, a: usize, b: usize, n: usize) {
    carry_chain(mem, d, a, b, n, sub_limb);
}

/// Modulo 2^(64 n). `d` is distinct from both operands.
pub(super) fn mul(mem: &mut [u64], d: usize, a: usize, b: usize, n: usize) {
    mem[d..d + n].fill(0);
    let zeros = |at: usize| mem[at..at + n].iter().filter(|l| **l == 0).count();
    // Masks and lane constants times a scalar: most limbs of one side are 0.
    let (outer, inner) = if zeros(a) > zeros(b) { (a, b) } else { (b, a) };
    for i in 0..n {
        let x = mem[outer + i];
        if x == 0 {
            continue;
        }
        let mut carry = 0u64;
        for j in 0..n - i {
            let t =
                u128::from(x) * u128::from(mem[inner + j]) + u128::from(mem[d + i + j]) + u128::from(carry);
            mem[d + i + j] = t as u64;
            carry = (t >> 64) as u64;
        }
    }
}

/// Quotient or remainder; `None` if the divisor is 0. Bit by bit: programs divide by constants, and rarely.
pub(super) fn div_mod(a: &[u64], b: &[u64], want_quotient: bool) -> Option<Vec<u64>> {
    let n = a.len();
    if b.iter().all(|l| *l == 0) {
        return None;
    }
    let (mut quotient, mut rest) = (vec![0u64; n], vec![0u64; n]);
    for bit in (0..n * 64).rev() {
        // The remainder stays below the divisor, so the bit shifted out is part of the comparison.
        let carry = rest[n - 1] >> 63 != 0;
        for i in (0..n).rev() {
            let low = if i > 0 { rest[i - 1] >> 63 } else { (a[bit / 64] >> (bit % 64)) & 1 };
            rest[i] = (rest[i] << 1) | low;
        }
        if carry || compare(&rest, b, false).is_ge() {
            let mut borrow = false;
            for (r, b) in rest.iter_mut().zip(b) {
                let (s, c1) = r.overflowing_sub(*b);
                let (s, c2) = s.overflowing_sub(u64::from(borrow));
                (*r, borrow) = (s, c1 | c2);
            }
            quotient[bit / 64] |= 1 << (bit % 64);
        }
    }
    Some(if want_quotient { quotient } else { rest })
}

pub(super) fn compare(a: &[u64], b: &[u64], signed: bool) -> Ordering {
    let (Some((top_a, low_a)), Some((top_b, low_b))) = (a.split_last(), b.split_last()) else {
        return Ordering::Equal;
    };
    let top = if signed { (*top_a as i64).cmp(&(*top_b as i64)) } else { top_a.cmp(top_b) };
    top.then_with(|| low_a.iter().rev().cmp(low_b.iter().rev()))
}

/// Shifts `n` limbs left.
pub(super) fn shift_left(mem: &mut [u64], d: usize, a: usize, count: u64, n: usize) {
    if count >= n as u64 * 64 {
        mem[d..d + n].fill(0);
        return;
    }
    let (skip, bits) = (count as usize / 64, (count % 64) as u32);
    if bits == 0 {
        mem.copy_within(a..a + n - skip, d + skip);
    } else if let Ok([z, x]) = mem.get_disjoint_mut([d..d + n, a..a + n]) {
        let z = &mut z[skip..];
        z[0] = x[0] << bits;
        for (z, pair) in z[1..].iter_mut().zip(x.windows(2)) {
            *z = (pair[1] << bits) | (pair[0] >> (64 - bits));
        }
    } else {
        for i in (skip..n).rev() {
            let low = if i > skip { mem[a + i - skip - 1] >> (64 - bits) } else { 0 };
            mem[d + i] = (mem[a + i - skip] << bits) | low;
        }
    }
    mem[d..d + skip].fill(0);
}

/// Shifts `na` limbs right into `n` limbs, filling with zeros or with the sign.
pub(super) fn shift_right(
    mem: &mut [u64],
    d: usize,
    a: usize,
    count: u64,
    n: usize,
    na: usize,
    signed: bool,
) {
    let fill = if signed && (mem[a + na - 1] as i64) < 0 { u64::MAX } else { 0 };
    if count >= na as u64 * 64 {
        mem[d..d + n].fill(fill);
        return;
    }
    let (skip, bits) = (count as usize / 64, (count % 64) as u32);
    // Limbs of the result that have at least one limb of the operand.
    let have = n.min(na - skip);
    if bits == 0 {
        mem.copy_within(a + skip..a + skip + have, d);
    } else {
        // All but the operand's last limb have a neighbour above.
        let pairs = have.min(na - skip - 1);
        let from = a + skip;
        match mem.get_disjoint_mut([d..d + pairs, from..from + pairs + 1]) {
            Ok([z, x]) => {
                for (z, pair) in z.iter_mut().zip(x.windows(2)) {
                    *z = (pair[0] >> bits) | (pair[1] << (64 - bits));
                }
            }
            Err(_) => {
                for i in 0..pairs {
                    mem[d + i] = (mem[from + i] >> bits) | (mem[from + i + 1] << (64 - bits));
                }
            }
        }
        if pairs < have {
            mem[d + pairs] = (mem[a + na - 1] >> bits) | (fill << (64 - bits));
        }
    }
    if have < n {
        mem[d + have..d + n].fill(fill);
    }
}

pub(super) fn extend(mem: &mut [u64], d: usize, a: usize, n: usize, na: usize, signed: bool) {
    let fill = if signed && (mem[a + na - 1] as i64) < 0 { u64::MAX } else { 0 };
    mem.copy_within(a..a + na, d);
    mem[d + na..d + n].fill(fill);
}

/// Sign-extends from `bits`, in place.
pub(super) fn sign_extend(limbs: &mut [u64], bits: u32) {
    let top = (bits as usize - 1) / 64;
    let shift = 63 - (bits - 1) % 64;
    if top >= limbs.len() {
        return;
    }
    limbs[top] = (((limbs[top] << shift) as i64) >> shift) as u64;
    let fill = if (limbs[top] as i64) < 0 { u64::MAX } else { 0 };
    limbs[top + 1..].fill(fill);
}

/// Clears the bits from `bits` on.
pub(super) fn mask(limbs: &mut [u64], bits: u32) {
    let full = bits as usize / 64;
    if full >= limbs.len() {
        return;
    }
    limbs[full] &= (1u64 << (bits % 64)) - 1;
    limbs[full + 1..].fill(0);
}
