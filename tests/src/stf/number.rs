//! Numbers of any size as scripts write them: `12`, `0x0c`, `0b1100`, `0o14`; `*` stands for a digit that does not count.

/// Value and mask of a number, big-endian, of one length. The mask covers the digits written, as p4c's runner has it; a decimal number's
/// covers everything.
///
/// # Errors
/// If it is no such number.
pub fn masked(text: &str) -> Result<(Vec<u8>, Vec<u8>), String> {
    let Some((bits, digits)) = based(text) else {
        let value = decimal(text)?;
        let mask = vec![0xff; value.len()];
        return Ok((value, mask));
    };
    let (mut value, mut mask) = (Vec::new(), Vec::new());
    for digit in digits.chars() {
        let worth = match digit {
            '*' => None,
            _ => Some(digit.to_digit(1 << bits).ok_or_else(|| format!("{text:?} is no number"))?),
        };
        for bit in (0..bits).rev() {
            value.push(worth.is_some_and(|worth| worth >> bit & 1 == 1));
            mask.push(worth.is_some());
        }
    }
    Ok((bytes(&value), bytes(&mask)))
}

/// A number without `*`.
///
/// # Errors
/// If it is none.
pub fn plain(text: &str) -> Result<Vec<u8>, String> {
    if text.contains('*') {
        return Err(format!("{text:?} has digits that do not count, where a number is needed"));
    }
    masked(text).map(|(value, _)| value)
}

/// A number of up to 64 bits.
///
/// # Errors
/// If it is none.
pub fn small(text: &str) -> Result<u64, String> {
    let value = plain(text)?;
    let (high, low) = value.split_at(value.len().saturating_sub(8));
    if high.iter().any(|byte| *byte != 0) {
        return Err(format!("{text} has more than 64 bits"));
    }
    Ok(low.iter().fold(0, |all, byte| all << 8 | u64::from(*byte)))
}

/// Prefix of a key matched by its longest prefix: `value/length`, or the digits that count.
///
/// # Errors
/// If it is neither.
pub fn prefix(text: &str) -> Result<(Vec<u8>, u32), String> {
    if let Some((value, length)) = text.split_once('/') {
        return Ok((plain(value)?, small(length)? as u32));
    }
    let Some((bits, digits)) = based(text) else {
        return Err(format!("{text} has no prefix length"));
    };
    let counted = digits.chars().filter(|digit| *digit != '*').count();
    Ok((masked(text)?.0, counted as u32 * bits))
}

fn based(text: &str) -> Option<(u32, &str)> {
    let (head, digits) = (text.get(..2)?, text.get(2..)?);
    let bits = match head {
        "0x" | "0X" => 4,
        "0b" | "0B" => 1,
        "0o" | "0O" => 3,
        _ => return None,
    };
    Some((bits, digits))
}

fn decimal(text: &str) -> Result<Vec<u8>, String> {
    let mut value = vec![0u8];
    if text.is_empty() {
        return Err("a number is missing".to_owned());
    }
    for digit in text.chars() {
        let mut carry = digit.to_digit(10).ok_or_else(|| format!("{text:?} is no number"))?;
        for byte in value.iter_mut().rev() {
            carry += u32::from(*byte) * 10;
            *byte = carry as u8;
            carry >>= 8;
        }
        if carry > 0 {
            value.insert(0, carry as u8);
        }
    }
    Ok(value)
}

/// Bits, highest first, as whole bytes.
fn bytes(bits: &[bool]) -> Vec<u8> {
    let mut out = Vec::new();
    for chunk in bits.rchunks(8) {
        out.push(chunk.iter().fold(0u8, |all, bit| all << 1 | u8::from(*bit)));
    }
    out.reverse();
    if out.is_empty() { vec![0] } else { out }
}

#[cfg(test)]
#[path = "number/tests.rs"]
mod tests;
