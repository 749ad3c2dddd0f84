use super::*;

#[test]
fn canonical_form_is_shortest_and_never_empty() {
    for (given, shortest) in
        [(&[0, 0, 1][..], &[1][..]), (&[0], &[0]), (&[0, 0], &[0]), (&[], &[0]), (&[1, 0], &[1, 0])]
    {
        assert_eq!(canonical(given), shortest, "{given:?}");
    }
}

#[test]
fn fit_accepts_padding_and_refuses_empty_and_wide_values() {
    assert_eq!(fit(&[0, 0, 0x1F], 5), Ok(&[0x1F][..]));
    assert_eq!(fit(&[0x20], 5), Err(ByteStringError::TooWide { bits: 6, width: 5 }));
    assert_eq!(fit(&[], 9), Err(ByteStringError::Empty { width: 9 }));
    assert_eq!(fit(&[], 9).unwrap_err().to_string(), "empty byte string, expected 1 to 2 bytes");
    assert_eq!(fit(&[1, 0xFF], 9), Ok(&[1, 0xFF][..]));
    assert_eq!(fit(&[2, 0], 9), Err(ByteStringError::TooWide { bits: 10, width: 9 }));
    let wide = [0xFF; 256];
    assert_eq!(fit(&wide, 2048), Ok(&wide[..]));
    assert_eq!(fit(b"", 0), Ok(&b""[..]), "translated strings have no width");
}

#[test]
fn masks_and_padding_follow_the_width() {
    assert_eq!(ones(9), [1, 0xFF]);
    assert_eq!(ones(8), [0xFF]);
    assert_eq!(prefix_mask(32, 24), [255, 255, 255, 0]);
    assert_eq!(prefix_mask(9, 1), [1, 0]);
    assert_eq!(prefix_mask(32, 0), [0; 4]);
    assert_eq!(padded(&[7], 17), [0, 0, 7]);
    assert_eq!(padded(&[9, 9, 7], 8), [7]);
}

#[test]
fn values_outside_of_a_mask_are_seen_at_any_length() {
    assert!(!exceeds_mask(&[0, 0x0F], &[0x0F]));
    assert!(exceeds_mask(&[1, 0x0F], &[0x0F]));
    assert!(!exceeds_mask(&[0x0F], &[0xFF, 0x0F]));
    assert!(exceeds_mask(&[0x1F], &[0xFF, 0x0F]));
}

#[test]
fn integers_round_trip() {
    for value in [0, 1, 255, 256, u64::MAX] {
        assert_eq!(to_u64(Value::from(value).as_bytes()), Some(value));
    }
    assert_eq!(to_u64(&[1; 9]), None);
    assert_eq!(to_u64(&[0, 0, 0, 0, 0, 0, 0, 0, 0, 5]), Some(5));
}
