//! Where values end, and what is refused.

use super::*;

const MAX: usize = 1 << 20;

#[test]
fn a_value_ends_where_its_last_byte_is() {
    let values: &[&[u8]] = &[
        b"\xc0",
        b"\x7f",
        b"\xff",
        b"\xcb12345678",
        b"\xa3abc",
        b"\xda\x00\x02ab",
        b"\xd9\x02ab",
        b"\xc4\x01x",
        b"\xd4\x05x",
        b"\xc7\x02\x05xx",
        b"\x80",
        b"\x90",
        b"\x82\xa1a\x01\xa1b\x92\x80\x91\xc0",
        b"\xde\x00\x01\x01\x02",
    ];
    for value in values {
        let mut bytes = value.to_vec();
        bytes.extend_from_slice(b"\x93rest");
        assert_eq!(skip(&bytes, MAX), Ok(Some(value.len())), "{value:x?}");
        for end in 0..value.len() {
            assert_eq!(skip(&value[..end], MAX), Ok(None), "{value:x?} up to {end}");
        }
        let mut piecewise = Scanner::new(MAX);
        for end in 0..value.len() {
            assert_eq!(piecewise.scan(&value[..end]), Ok(None), "{value:x?} up to {end}");
        }
        assert_eq!(piecewise.scan(&bytes), Ok(Some(value.len())), "{value:x?} in pieces");
        assert_eq!(piecewise.scan(b"\xa1xyz"), Ok(Some(2)), "the next value after {value:x?}");
    }
}

#[test]
fn what_cannot_be_a_value_or_is_too_much_of_one_is_refused_at_once() {
    assert_eq!(skip(b"\x92\x01\xc1", MAX), Err(SkipError::Reserved { at: 2 }));
    assert_eq!(skip(b"\xdb\xff\xff\xff\xff", MAX), Err(SkipError::TooLarge { max: MAX }));
    assert_eq!(skip(b"\xdf\xff\xff\xff\xff", MAX), Err(SkipError::TooLarge { max: MAX }));
    assert_eq!(skip(b"\xdd\xff\xff\xff\xff", usize::MAX), Ok(None));
    assert_eq!(skip(&[0x91; DEPTH_MAX + 1], MAX), Err(SkipError::TooDeep));
    let mut deep = vec![0x91; DEPTH_MAX];
    deep.push(0xc0);
    assert_eq!(skip(&deep, MAX), Ok(Some(DEPTH_MAX + 1)));
    assert_eq!(skip(b"\x93\x01\x02\x03", 3), Err(SkipError::TooLarge { max: 3 }));
    assert_eq!(skip(b"\x93\x01\x02\x03", 4), Ok(Some(4)));
}
