use super::*;

#[test]
fn integers_finish_overflow_or_fail() {
    assert_eq!(next(Format::I32, 0, Flags::NONE), Next::Finish);
    assert_eq!(next(Format::I32, 0, Flags::OVERFLOW), Next::Overflow);
    assert_eq!(next(Format::I32, 0, Flags::MISMATCH | Flags::OVERFLOW), Next::Mismatch);
    assert_eq!(next(Format::I32, 0, Flags::RANGE), Next::Violation);
    assert_eq!(next(Format::I32, 0, Flags::NONFINITE), Next::Violation);
}

#[test]
fn blocks_take_the_documented_passes() {
    let bfp16 = |pass, flags| next(Format::Bfp16, pass, flags);
    assert_eq!(bfp16(0, Flags::NONE), Next::Finish);
    assert_eq!(bfp16(0, Flags::RANGE), Next::Pass(1));
    assert_eq!(bfp16(1, Flags::NONE), Next::Finish);
    assert_eq!(bfp16(0, Flags::NONFINITE), Next::Pass(2));
    assert_eq!(
        bfp16(0, Flags::NONFINITE | Flags::RANGE),
        Next::Pass(2),
        "only a purely RANGE result goes to pass 1"
    );
    assert_eq!(bfp16(2, Flags::NONE), Next::Pass(3));
    assert_eq!(bfp16(3, Flags::NONE), Next::Pass(4));
    assert_eq!(bfp16(4, Flags::NONE), Next::Finish);
    assert_eq!(bfp16(4, Flags::RANGE), Next::Pass(5));
    assert_eq!(bfp16(5, Flags::NONE), Next::Finish);
}

#[test]
fn no_flag_leads_to_an_endless_chain() {
    for format in Format::ALL {
        for first in 0..=255u8 {
            for second in 0..=255u8 {
                // Whatever flags alternate, a chunk ends after at most six passes.
                let (mut pass, mut steps) = (0, 0);
                while let Next::Pass(following) =
                    next(format, pass, Flags::from_bits(if steps % 2 == 0 { first } else { second }))
                {
                    assert!(following > pass, "passes only go forward");
                    pass = following;
                    steps += 1;
                }
                assert!(steps <= 5);
            }
        }
    }
}

#[test]
fn flags_a_pass_cannot_have_are_violations() {
    for pass in [1, 2, 3, 5] {
        for flags in [Flags::RANGE, Flags::NONFINITE, Flags::OVERFLOW] {
            assert_eq!(next(Format::Bfp16, pass, flags), Next::Violation, "pass {pass} {flags}");
        }
    }
    assert_eq!(next(Format::Bfp16, 0, Flags::from_bits(1 << 5)), Next::Violation, "a later version's flag");
    assert_eq!(next(Format::Bfp16, 0, Flags::OVERFLOW), Next::Violation);
    assert_eq!(next(Format::Bfp16, 4, Flags::NONFINITE), Next::Violation);
}
