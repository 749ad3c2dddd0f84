use super::*;

#[test]
fn packed_integers_come_back() {
    for count in 0..20 {
        let values: Vec<i8> = (0..count).map(|index| (index * 7 % 16 - 8) as i8).collect();
        let packed = I4Vec::from_values(&values);
        let view = packed.as_ref();
        assert_eq!((0..view.len()).map(|index| view.get(index)).collect::<Vec<_>>(), values);
        assert_eq!(view.bytes().len(), values.len().div_ceil(2));
    }
    // The half byte behind an odd number of elements is the caller's.
    let mut bytes = [0xAB, 0xCD];
    let mut view = I4Mut::new(&mut bytes, 3);
    (0..3).for_each(|index| view.set(index, -1));
    assert_eq!(bytes, [0xFF, 0xCF]);
}

#[test]
fn bytes_of_every_type_come_back() {
    for dtype in Dtype::ALL {
        let bytes: Vec<u8> = (0..48).collect();
        let tensor = Tensor::from_le_bytes(dtype, &bytes);
        assert_eq!(tensor.len(), dtype.elements_in(48), "{dtype}");
        assert_eq!(tensor.view().to_le_bytes(), bytes, "{dtype}");
        assert_eq!(dtype.bytes_for(tensor.len()), 48);
        assert_eq!((tensor.dtype(), dtype.name().parse()), (dtype, Ok(dtype)));
        let zeros = Tensor::zeros(dtype, 5);
        assert_eq!((zeros.len(), zeros.dtype()), (5, dtype));
        assert!((0..5).all(|index| zeros.view().bits(index) == 0));
    }
    assert!("f64".parse::<Dtype>().unwrap_err().to_string().contains("f8e4m3"));
}
