//! `inca-agent pipe`: sums tensors from standard input to standard output, for programs in any language.

use std::io::{self, BufReader, BufWriter, Read, Write};

use inca_host_agent::{Communicator, Dtype, Tensor};

use crate::Failure;
use crate::allreduce::reduce;
use crate::args::{PipeArgs, SchemeArgs};

pub(crate) fn run(args: &PipeArgs) -> Result<(), Failure> {
    if args.error_feedback && args.scheme.dtype != Dtype::F32 {
        return Err(Failure::Usage("--error-feedback is for tensors of f32".to_owned()));
    }
    let SchemeArgs { dtype, op, .. } = args.scheme;
    let group = Communicator::join(args.join.options(&args.scheme, args.seed)?)?;
    let mut residual = Vec::new();
    let mut input = BufReader::new(io::stdin().lock());
    let mut output = BufWriter::new(io::stdout().lock());
    while let Some(mut tensor) = read_frame(&mut input, dtype).map_err(|error| failure("reading", &error))? {
        match &mut tensor {
            Tensor::F32(elements) if args.error_feedback => {
                if residual.len() != elements.len() {
                    residual = vec![0.0; elements.len()];
                }
                group.allreduce_f32_with_feedback(elements, &mut residual, op, args.deadline)?;
            }
            tensor => reduce(&group, tensor, op, args.deadline)?,
        }
        write_frame(&mut output, &tensor.view().to_le_bytes(), tensor.len())
            .map_err(|error| failure("writing", &error))?;
    }
    crate::leave(group);
    Ok(())
}

/// One tensor: the number of elements (64 bits, little-endian), then the elements. None at the end of the input.
fn read_frame(input: &mut impl Read, dtype: Dtype) -> io::Result<Option<Tensor>> {
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
    // Even 4-bit elements take more than a count of 2^60 would leave room for.
    let wanted = usize::try_from(count).ok().filter(|count| *count < 1 << 59);
    let Some(wanted) = wanted.map(|count| dtype.bytes_for(count) as u64) else {
        return Err(io::Error::other(format!("{count} elements do not fit in memory")));
    };
    // Grows with what comes: a wrong count must not reserve memory.
    let mut bytes = Vec::new();
    input.take(wanted).read_to_end(&mut bytes)?;
    if bytes.len() as u64 != wanted {
        return Err(cut(bytes.len() as u64, wanted));
    }
    Ok(Some(Tensor::from_le_bytes_of(dtype, &bytes, count as usize)))
}

fn write_frame(output: &mut impl Write, bytes: &[u8], elements: usize) -> io::Result<()> {
    output.write_all(&(elements as u64).to_le_bytes())?;
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
            write_frame(&mut wire, bytes, bytes.len() / 4).expect("a vector takes all");
        }
        let mut input = &wire[..];
        let mut frames = Vec::new();
        while let Some(bytes) = read_frame(&mut input, Dtype::F32).expect("whole frames") {
            frames.push(bytes.view().to_le_bytes());
        }
        assert_eq!(frames, [vec![1, 2, 3, 4, 5, 6, 7, 8], vec![], vec![9, 9, 9, 9]]);
    }

    #[test]
    fn input_cut_anywhere_is_an_error_that_says_where() {
        let mut wire = Vec::new();
        write_frame(&mut wire, &[7; 8], 2).expect("a vector takes all");
        for end in 1..wire.len() {
            let error = read_frame(&mut &wire[..end], Dtype::F32).expect_err("cut");
            assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof, "{end}: {error}");
        }
    }

    #[test]
    fn counts_beyond_memory_are_refused_without_reserving_it() {
        for count in [u64::MAX, u64::MAX / 4, 1 << 61] {
            assert!(read_frame(&mut &count.to_le_bytes()[..], Dtype::F32).is_err(), "{count}");
        }
        let error =
            read_frame(&mut &(1u64 << 40).to_le_bytes()[..], Dtype::F32).expect_err("nothing follows");
        assert_eq!(error.to_string(), format!("ended after 0 of {} bytes", 1u64 << 42));
    }
}
