use super::*;

fn interface(mtu: u32) -> DataInterface {
    DataInterface { name: "eth0".to_owned(), address: Ipv4Addr::new(10, 0, 0, 1), mtu }
}

#[test]
fn chunks_that_do_not_fit_are_refused_with_the_numbers() {
    // 5 words: 20 + 8 + 40 + 5 * 256 = 1348 bytes.
    assert!(interface(1348).check_chunk(5).is_ok());
    assert!(interface(1500).check_chunk(5).is_ok());
    let error = interface(1347).check_chunk(5).expect_err("one byte short").to_string();
    for number in ["1347", "1348", "5 words", "at most 4 words"] {
        assert!(error.contains(number), "{error}");
    }
    let error = interface(1500).check_chunk(32).expect_err("jumbo chunk").to_string();
    assert!(error.contains("8260") && error.contains("at most 5 words"), "{error}");
    let error = interface(300).check_chunk(1).expect_err("tiny").to_string();
    assert!(error.contains("not even one word"), "{error}");
}

#[test]
fn the_loopback_interface_is_found_by_name_and_by_address() {
    let by_name = DataInterface::find(None, Some("lo"));
    let Ok(by_name) = by_name else {
        // A fresh network namespace has its loopback down and without an address.
        assert!(matches!(by_name, Err(InterfaceError::NoSuchInterface { .. })));
        return;
    };
    assert!(by_name.mtu >= 1500, "{by_name:?}");
    assert_eq!(DataInterface::find(Some(Ipv4Addr::LOCALHOST), None).expect("by address"), by_name);
}

#[test]
fn unknown_interfaces_are_refused_with_what_there_is() {
    let error = DataInterface::find(None, Some("nosuchif0")).expect_err("no such interface").to_string();
    assert!(error.contains("nosuchif0") && error.contains("interfaces here are"), "{error}");
    let address = Ipv4Addr::new(192, 0, 2, 77);
    let error = DataInterface::find(Some(address), None).expect_err("no such address").to_string();
    assert!(error.contains("192.0.2.77"), "{error}");
}
