use super::{masked, plain, prefix, small};

#[test]
fn every_base_and_any_length() {
    assert_eq!(plain("0x1ff").unwrap(), [0x01, 0xff]);
    assert_eq!(plain("0b1_0").unwrap_err(), "\"0b1_0\" is no number");
    assert_eq!(plain("0o17").unwrap(), [15]);
    assert_eq!(plain("65536").unwrap(), [1, 0, 0]);
    assert_eq!(plain("18446744073709551616").unwrap(), [1, 0, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(small("0x00000000000000000000ff").unwrap(), 255);
    assert!(small("18446744073709551616").is_err());
    assert!(plain("0x1*").is_err());
    assert!(plain("").is_err());
}

#[test]
fn digits_that_do_not_count() {
    assert_eq!(masked("0x1*3").unwrap(), (vec![0x01, 0x03], vec![0x0f, 0x0f]));
    assert_eq!(masked("0b1*").unwrap(), (vec![0b10], vec![0b10]));
    assert_eq!(prefix("0x0a******").unwrap(), (vec![10, 0, 0, 0], 8));
    assert_eq!(prefix("0x0a000000/12").unwrap(), (vec![10, 0, 0, 0], 12));
    assert!(prefix("10").is_err());
}
