use super::*;
use crate::format::Format;
use crate::packet::EXP_BIAS;
use crate::scheme::ReduceOp;
use crate::tensor::{Dtype, TensorRef};

fn scheme(dtype: Dtype, format: Format) -> Scheme {
    Scheme::new(dtype, ReduceOp::Sum, format, 4).unwrap()
}

fn next(scheme: &Scheme, pass: u8, flags: Flags) -> Next {
    let state = ChunkState { pass, magnitude_bits: 8, ..ChunkState::default() };
    let result = PassResult { flags, exp_max: EXP_BIAS + 1, exp_min: EXP_BIAS, words: &[] };
    scheme.next(&state, &result)
}

/// Every flag in every pass: what is not foreseen breaks the protocol, whatever a later version's flag may mean.
#[test]
fn passes_follow_the_table() {
    let schemes = [
        scheme(Dtype::F32, Format::Bfp16),
        scheme(Dtype::I8, Format::I8),
        scheme(Dtype::F32, Format::Exact),
        Scheme::new(Dtype::F32, ReduceOp::Max, Format::Max32, 4).unwrap(),
    ];
    let [block, integer, exact, max] = &schemes;
    let (range, nonfinite, overflow) = (Flags::RANGE, Flags::NONFINITE, Flags::OVERFLOW);
    let allowed = [
        (block, 0, Flags::NONE, Next::Finish),
        (block, 0, range, Next::Pass(1)),
        (block, 0, nonfinite, Next::Pass(2)),
        (block, 0, nonfinite | range, Next::Pass(2)),
        (block, 1, Flags::NONE, Next::Finish),
        (block, 2, Flags::NONE, Next::Pass(3)),
        (block, 3, Flags::NONE, Next::Pass(4)),
        (block, 4, Flags::NONE, Next::Finish),
        (block, 4, range, Next::Pass(5)),
        (block, 5, Flags::NONE, Next::Finish),
        (integer, 0, Flags::NONE, Next::Finish),
        (integer, 0, overflow, Next::Pass(16)),
        // Digits of 5 bits for 4 ranks in lanes of 8: two of them.
        (integer, 16, Flags::NONE, Next::Pass(17)),
        (integer, 17, Flags::NONE, Next::Finish),
        (exact, 0, range, Next::Pass(16)),
        (exact, 0, range | nonfinite, Next::Pass(2)),
        (exact, 2, Flags::NONE, Next::Pass(3)),
        (exact, 3, Flags::NONE, Next::Pass(16)),
        (exact, 16, Flags::NONE, Next::Finish),
        (max, 0, Flags::NONE, Next::Finish),
    ];
    for scheme in &schemes {
        for pass in [0, 1, 2, 3, 4, 5, 16, 17] {
            for flags in 0..=255 {
                let flags = Flags::from_bits(flags);
                let got = next(scheme, pass, flags);
                let listed = allowed.iter().find(|(s, p, f, _)| *s == scheme && (*p, *f) == (pass, flags));
                if flags.contains(Flags::MISMATCH) {
                    assert_eq!(got, Next::Mismatch);
                } else if let Some((.., expected)) = listed {
                    assert_eq!(got, *expected, "{scheme:?}, pass {pass}, flags {flags}");
                } else if flags.is_empty() {
                    // Passes that this scheme never sends.
                } else {
                    assert_eq!(got, Next::Violation, "{scheme:?}, pass {pass}, flags {flags}");
                }
            }
        }
    }
}

#[test]
fn spans_that_no_f32_has_break_the_protocol() {
    let exact = scheme(Dtype::F32, Format::Exact);
    for (exp_max, exp_min) in
        [(1, 1), (EXP_BIAS, EXP_BIAS), (EXP_BIAS, EXP_BIAS + 1), (0xFFFE, 1), (EXP_BIAS + 129, EXP_BIAS)]
    {
        let result = PassResult { flags: Flags::RANGE, exp_max, exp_min, words: &[] };
        assert_eq!(exact.next(&ChunkState::default(), &result), Next::Violation, "{exp_max} {exp_min}");
    }
}

/// What error feedback keeps: element less what was sent, so that both add up to the element.
#[test]
fn residuals_are_what_quantisation_takes() {
    let scheme = scheme(Dtype::F32, Format::Bfp8);
    let input: Vec<f32> = (0..256).map(|index| ((index * 37 % 101) as f32 - 50.0) * 0.013).collect();
    let mut words = vec![0; 256];
    let state = ChunkState::default();
    let sent = scheme.encode(&TensorRef::F32(&input), 0..256, &state, &mut words).unwrap();
    let mut decoded = vec![0.0; 256];
    bfp::decode(Format::Bfp8, &words, sent.exp_max, &mut decoded).unwrap();
    let mut residual = vec![1.0; 256];
    scheme.residual(&input, &state, &mut vec![0; 256], &mut residual).unwrap();
    for ((element, sent), residual) in input.iter().zip(&decoded).zip(&residual) {
        assert_eq!(sent + residual, *element);
    }
    assert!(residual.iter().any(|residual| *residual != 0.0));
}
