//! Ends of values, forms that are written and read, and refused bytes.

use std::collections::BTreeMap;

use expect_test::{Expect, expect};
use serde::Serialize;
use serde::de::DeserializeOwned;
use songline_model::{AllocId, Blob, Dur, NodeStatus, Secret, Str, Time};

use super::*;

const MAX: usize = 1 << 20;

#[test]
fn msgpack_scan_ends_at_the_last_byte_of_a_value() {
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
fn reserved_oversized_and_deep_msgpack_values_are_refused_at_once() {
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

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn check_written<T: Serialize>(value: &T, expected: &Expect) {
    expected.assert_eq(&hex(&to_vec(value).unwrap()));
}

#[test]
fn msgpack_numbers_are_written_in_the_shortest_form_of_their_sign() {
    let unsigned: Vec<String> = [0u64, 127, 128, 255, 256, 65_535, 65_536, u32::MAX.into(), 1 << 32]
        .iter()
        .map(|n| hex(&to_vec(n).unwrap()))
        .collect();
    expect!["00 7f cc80 ccff cd0100 cdffff ce00010000 ceffffffff cf0000000100000000"].assert_eq(&unsigned.join(" "));
    let signed: Vec<String> = [127i64, 128, 255, 32_767, 32_768, 1 << 31, -1, -32, -33, -128, -129, -32_769, i64::MIN]
        .iter()
        .map(|n| hex(&to_vec(n).unwrap()))
        .collect();
    expect![
        "7f d10080 d100ff d17fff d200008000 d30000000080000000 ff e0 d0df d080 d1ff7f d2ffff7fff d38000000000000000"
    ]
    .assert_eq(&signed.join(" "));
    check_written(&1.5f32, &expect!["cb3ff8000000000000"]);
}

#[test]
fn msgpack_texts_and_bytes_share_the_string_family() {
    check_written(&"a".repeat(31), &expect!["bf61616161616161616161616161616161616161616161616161616161616161"]);
    assert_eq!(hex(&to_vec(&"a".repeat(32)).unwrap()[..3]), "da0020");
    assert_eq!(hex(&to_vec(&"a".repeat(65_536)).unwrap()[..5]), "db00010000");
    check_written(&Blob(vec![0xff; 3]), &expect!["a3ffffff"]);
    check_written(&Secret::new("s"), &expect!["a173"]);
    check_written(&NodeStatus::Ready, &expect!["a57265616479"]);
}

#[test]
fn msgpack_ids_are_texts_and_times_have_the_go_encoding() {
    check_written(&AllocId::NIL, &expect!["a0"]);
    check_written(
        &BTreeMap::from([(AllocId::from_bytes([1; 16]), 2u64)]),
        &expect!["81da002430313031303130312d303130312d303130312d303130312d30313031303130313031303102"],
    );
    check_written(&Time::from_nanos(1_763_719_759_235_577_510), &expect!["af010000000ee0b2314f0e0aa0a6ffff"]);
    check_written(&Dur::from_secs(1), &expect!["d23b9aca00"]);
}

#[derive(Debug, Default, PartialEq, Serialize, serde::Deserialize)]
#[serde(default, rename_all = "PascalCase")]
struct Row {
    text: Str,
    number: i64,
    id: AllocId,
    bytes: Option<Blob>,
    list: Option<Vec<Str>>,
    plain: Vec<Str>,
    started_at: Option<Time>,
    expiration_time: Option<Time>,
    status: NodeStatus,
    yes: bool,
}

fn read<T: DeserializeOwned + std::fmt::Debug>(bytes: &[u8]) -> String {
    match from_slice::<T>(bytes) {
        Ok(value) => format!("{value:?}"),
        Err(error) => error.on_wire(32),
    }
}

#[test]
fn nil_and_absent_fields_decode_as_zero_and_unknown_fields_are_skipped() {
    let zero = format!("{:?}", Row::default());
    let nils = to_vec(&BTreeMap::from(
        ["Text", "Number", "Id", "Bytes", "List", "Plain", "StartedAt", "Status", "Yes"].map(|key| (key, ())),
    ))
    .unwrap();
    for bytes in [b"\xc0".as_slice(), b"\x80", b"\x90", b"\x81\xa1z\x92\x01\x81\xa1a\xc0", b"\x81\xa4text\xa1x", &nils]
    {
        assert_eq!(read::<Row>(bytes), zero, "{bytes:x?}");
    }
    let written = to_vec(&Row::default()).unwrap();
    let tree = Tree::read(&written).unwrap();
    assert_eq!(tree.get("StartedAt"), Some(&Tree::Raw(ZERO_TIME.to_vec())), "no time is Go's zero time");
    assert_eq!(tree.get("ExpirationTime"), Some(&Tree::Nil), "but for a pointer to one");
    assert_eq!(read::<Row>(&written), zero);
}

#[test]
fn every_msgpack_form_of_numbers_texts_and_times_is_read() {
    for bytes in [
        b"\x05".as_slice(),
        b"\xcc\x05",
        b"\xd0\x05",
        b"\xcf\0\0\0\0\0\0\0\x05",
        b"\xd3\0\0\0\0\0\0\0\x05",
        b"\xcb\x40\x14\0\0\0\0\0\0",
    ] {
        assert_eq!((read::<i64>(bytes), read::<u8>(bytes)), ("5".to_owned(), "5".to_owned()), "{bytes:x?}");
        assert_eq!(read::<f64>(bytes), "5.0", "{bytes:x?}");
    }
    for bytes in
        [b"\xa2ab".as_slice(), b"\xd9\x02ab", b"\xda\0\x02ab", b"\xdb\0\0\0\x02ab", b"\xc4\x02ab", b"\xc5\0\x02ab"]
    {
        assert_eq!(
            (read::<Str>(bytes), read::<Blob>(bytes)),
            ("\"ab\"".to_owned(), "Blob(2 bytes)".to_owned()),
            "{bytes:x?}"
        );
    }
    assert_eq!(read::<Str>(b"\xa2a\xff"), "\"a\u{fffd}\"", "Go takes any bytes for a text");
    // The same moment in a zone an hour to the east, and in one whose offset has seconds.
    let at = Time::from_nanos(1_763_719_759_235_577_510);
    let written = to_vec(&at).unwrap();
    let east = [b"\xaf", &written[1..14], b"\0\x3c"].concat();
    let odd = [b"\xb0\x02".as_slice(), &written[2..14], b"\0\x3c\x07"].concat();
    assert_eq!((read::<Time>(&east), read::<Time>(&odd)), (at.to_string(), at.to_string()));
}

#[test]
fn time_beyond_64_bit_nanoseconds_is_clamped() {
    let told = |seconds: i64, nanos: u32| {
        let bytes = [b"\xaf\x01".as_slice(), &seconds.to_be_bytes(), &nanos.to_be_bytes(), b"\0\0"].concat();
        let time: Time = from_slice(&bytes).unwrap();
        let again: Time = from_slice(&to_vec(&time).unwrap()).unwrap();
        assert_eq!(again, time, "what was written is read as it was");
        time.nanos()
    };
    // The year 938, the beginning of all numbers, and the moments around both bounds.
    assert_eq!((told(29_570_072_215, 841_725_933), told(i64::MIN, 999_999_999)), (i64::MIN + 1, i64::MIN + 1));
    assert_eq!((told(52_912_224_763, 145_224_192), told(52_912_224_763, 145_224_194)), (i64::MIN + 1, i64::MIN + 2));
    assert_eq!((told(71_358_968_836, 854_775_807), told(71_358_968_836, 854_775_808)), (i64::MAX, i64::MAX));
    assert_eq!((told(0, 0), told(0, 1)), (i64::MIN, i64::MIN + 1), "the zero time is none");
}

#[test]
fn msgpack_type_mismatch_is_refused_with_its_position() {
    let told: Vec<String> = [
        b"\x81\xa4Text\x07".as_slice(),
        b"\xa1x",
        b"\x91\x01",
        b"\x81\xa6Number\xa1x",
        b"\x81\xa6Number\xcf\xff\xff\xff\xff\xff\xff\xff\xff",
        b"\x81\xa2Id\xa1x",
        b"\x81\xa3Yes\x01",
        b"\x81\xa4List\x01",
        b"\x81\xa6Status\xa3odd",
        b"\x81\xa4Text",
        b"\xc1",
        b"\x80\x80",
    ]
    .iter()
    .map(|bytes| format!("{}: {}", hex(bytes), read::<Row>(bytes)))
    .collect();
    expect![[r#"
        81a45465787407: msgpack decode error [pos 39]: invalid byte descriptor for decoding bytes, got: 0x7
        a178: msgpack decode error [pos 33]: only encoded map or array can be decoded into a struct
        9101: msgpack decode error [pos 33]: a struct as an array is not taken
        81a64e756d626572a178: msgpack decode error [pos 41]: unrecognized descriptor byte for a number: 0xa1
        81a64e756d626572cfffffffffffffffff: msgpack decode error [pos 49]: invalid value: integer `18446744073709551615`, expected i64
        81a24964a178: msgpack decode error [pos 38]: invalid UUID: "x"
        81a359657301: msgpack decode error [pos 38]: invalid single-byte value for bool
        81a44c69737401: msgpack decode error [pos 39]: only encoded map or array can decode into slice
        81a6537461747573a36f6464: msgpack decode error [pos 44]: unknown variant `odd`, expected one of `initializing`, `ready`, `down`, `disconnected`
        81a454657874: msgpack decode error [pos 38]: EOF
        c1: msgpack decode error [pos 32]: reserved byte 0xc1
        8080: msgpack decode error [pos 33]: bytes after the value"#]].assert_eq(&told.join("\n"));
}

/// A duration that JSON shows as a text.
struct Span(&'static str);

impl Serialize for Span {
    fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_newtype_struct(songline_model::form::SPAN, self.0)
    }
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct Inner {
    update_time: Time,
    started_at: Option<Time>,
    pointer: Option<Time>,
    hash: Blob,
    secret: Secret,
    ttl: Span,
}

/// A view of a row: serde writes its fields as a map.
#[derive(Serialize)]
struct View {
    #[serde(flatten)]
    row: Inner,
}

#[test]
fn shown_values_have_typed_times_durations_and_bytes_but_no_secrets() {
    let row = || Inner {
        update_time: Time::from_nanos(1_795_254_137_926_068_538),
        started_at: None,
        pointer: None,
        hash: Blob(vec![0xff, 0x00]),
        secret: Secret::new("hidden"),
        ttl: Span("1h0m0.5s"),
    };
    let (plain, view) = (shown(&row()).unwrap(), shown(&View { row: row() }).unwrap());
    let (plain, view) = (Tree::read(&plain).unwrap(), Tree::read(&view).unwrap());
    assert_eq!(plain, view);
    let typed = Tree::read(&to_vec(&row().update_time).unwrap()).unwrap();
    assert_eq!(plain.get("UpdateTime"), Some(&typed));
    assert_eq!(plain.get("StartedAt"), Some(&Tree::Raw(ZERO_TIME.to_vec())));
    assert_eq!(plain.get("Pointer"), Some(&Tree::Nil));
    assert_eq!(plain.get("Hash"), Some(&Tree::Raw(vec![0xff, 0x00])));
    assert_eq!(plain.get("Secret"), Some(&Tree::text("")));
    assert_eq!(plain.get("Ttl"), Some(&Tree::Int(3_600_500_000_000)));
}

#[test]
fn a_text_that_is_not_of_its_type_is_not_written() {
    assert!(shown(&Span("soon")).is_err());
}
