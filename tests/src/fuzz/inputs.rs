//! An input as a sequence of parts, so that one input can hold a whole conversation.

/// Longest sequence that is looked at: an input must not take long.
const MOST: usize = 24;

/// The parts of an input: a kind, and bytes. Each is written as the kind, the number of bytes (16 bits, big-endian) and the bytes;
/// the last one may be cut short.
pub fn parts(input: &[u8]) -> impl Iterator<Item = (u8, &[u8])> {
    let mut rest = input;
    std::iter::from_fn(move || {
        let (&[kind, high, low], body) = rest.split_first_chunk()?;
        let length = usize::from(u16::from_be_bytes([high, low])).min(body.len());
        let (part, after) = body.split_at(length);
        rest = after;
        Some((kind, part))
    })
    .take(MOST)
}

/// An input of these parts. What is longer than 65535 bytes is cut.
pub fn pieces(parts: impl IntoIterator<Item = (u8, Vec<u8>)>) -> Vec<u8> {
    let mut input = Vec::new();
    for (kind, mut bytes) in parts {
        bytes.truncate(usize::from(u16::MAX));
        input.push(kind);
        input.extend((bytes.len() as u16).to_be_bytes());
        input.extend(bytes);
    }
    input
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_come_back_as_written() {
        let wanted = [(1, vec![1, 2, 3]), (2, vec![]), (255, vec![9; 300])];
        let input = pieces(wanted.clone());
        let found: Vec<_> = parts(&input).map(|(kind, bytes)| (kind, bytes.to_vec())).collect();
        assert_eq!(found, wanted);
    }

    #[test]
    fn cut_input_gives_what_is_there() {
        let input = pieces([(7, vec![1, 2, 3])]);
        assert_eq!(parts(&input[..5]).collect::<Vec<_>>(), [(7, &[1, 2][..])]);
        assert_eq!(parts(&input[..2]).count(), 0);
        assert_eq!(parts(&[]).count(), 0);
    }
}
