//! `inca-agent pipe`: sums tensors from standard input to standard output, for programs in any language.

use std::io::{self, BufReader, BufWriter, Read, Write};

use inca_host_agent::{Communicator, Dtype, ReduceOp};

use crate::allreduce::reduce;
use crate::args::PipeArgs;
use crate::{Failure, data};

pub(crate) fn run(args: &PipeArgs) -> Result<(), Failure> {
    let dtype = Dtype::from(args.dtype);
    let op = ReduceOp::from(args.op);
    let group = Communicator::join(args.join.options(dtype, args.seed))?;
    let mut input = BufReader::new(io::stdin().lock());
    let mut output = BufWriter::new(io::stdout().lock());
    while let Some(bytes) =
        read_frame(&mut input, dtype.size()).map_err(|error| failure("reading", &error))?
    {
        let mut tensor = data::decode(&bytes, dtype);
        reduce(&group, &mut tensor, op, args.deadline)?;
        write_frame(&mut output, &data::encode(&tensor), dtype.size())
            .map_err(|error| failure("writing", &error))?;
    }
    crate::leave(group);
    Ok(())
}

/// One tensor: the number of elements (64 bits, little-endian), then the elements. None at the end of the input.
fn read_frame(input: &mut impl Read, element: usize) -> io::Result<Option<Vec<u8>>> {
    let mut head = [0; 8];
    let mut filled = 0;
    while filled < head.len() {
        match input.read(&mut head[filled..])? {
            0 if filled == 0 => return Ok(None),
            0 => return Err(cut(filled as u64, head.len() as u64)),
            read => filled += read,
        }
    }
    let count = u64::from_le_bytes(head);
    let Some(wanted) = count.checked_mul(element as u64).filter(|bytes| *bytes <= isize::MAX as u64) else {
        return Err(io::Error::other(format!("{count} elements do not fit in memory")));
    };
    // Grows with what comes: a wrong count must not reserve memory.
    let mut bytes = Vec::new();
    input.take(wanted).read_to_end(&mut bytes)?;
    if bytes.len() as u64 != wanted {
        return Err(cut(bytes.len() as u64, wanted));
    }
    Ok(Some(bytes))
}

fn write_frame(output: &mut impl Write, bytes: &[u8], element: usize) -> io::Result<()> {
    output.write_all(&((bytes.len() / element) as u64).to_le_bytes())?;
    output.write_all(bytes)?;
    output.flush()
}

fn cut(got: u64, wanted: u64) -> io::Error {
    io::Error::new(io::ErrorKind::UnexpectedEof, format!("ended after {got} of {wanted} bytes"))
}

fn failure(what: &'static str, error: &io::Error) -> Failure {
    let path = if what == "reading" { "standard input" } else { "standard output" };
    Failure::File { what, path: path.to_owned(), reason: error.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_come_back_as_written_until_the_end() {
        let mut wire = Vec::new();
        for bytes in [&[1u8, 2, 3, 4, 5, 6, 7, 8][..], &[], &[9, 9, 9, 9]] {
            write_frame(&mut wire, bytes, 4).expect("a vector takes all");
        }
        let mut input = &wire[..];
        let mut frames = Vec::new();
        while let Some(bytes) = read_frame(&mut input, 4).expect("whole frames") {
            frames.push(bytes);
        }
        assert_eq!(frames, [vec![1, 2, 3, 4, 5, 6, 7, 8], vec![], vec![9, 9, 9, 9]]);
    }

    #[test]
    fn input_cut_anywhere_is_an_error_that_says_where() {
        let mut wire = Vec::new();
        write_frame(&mut wire, &[7; 8], 4).expect("a vector takes all");
        for end in 1..wire.len() {
            let error = read_frame(&mut &wire[..end], 4).expect_err("cut");
            assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof, "{end}: {error}");
        }
    }

    #[test]
    fn counts_beyond_memory_are_refused_without_reserving_it() {
        for count in [u64::MAX, u64::MAX / 4, 1 << 61] {
            assert!(read_frame(&mut &count.to_le_bytes()[..], 4).is_err(), "{count}");
        }
        let error = read_frame(&mut &(1u64 << 40).to_le_bytes()[..], 4).expect_err("nothing follows");
        assert_eq!(error.to_string(), format!("ended after 0 of {} bytes", 1u64 << 42));
    }
}
