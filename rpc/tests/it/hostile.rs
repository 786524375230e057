//! Random and broken bytes: any value survives a round trip, and any input gives a value or an error, in bounded
//! memory.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use proptest::prelude::*;
use songline_rpc::message::{AllocGetAllocsAnswer, NodeRegister, NodeUpdateAlloc, RequestMeta};
use songline_rpc::msgpack::{self, Tree, skip};

use super::captured;

/// Allocator that counts the bytes held by each thread, and their peak.
struct Counting;

thread_local! {
    static HELD: Cell<(isize, isize)> = const { Cell::new((0, 0)) };
}

fn count(bytes: isize) {
    // A thread that is ending has no counter any more.
    let _ = HELD.try_with(|held| {
        let now = held.get().0 + bytes;
        held.set((now, held.get().1.max(now)));
    });
}

// SAFETY: every call goes to the system's allocator unchanged; counting neither allocates nor unwinds.
#[allow(unsafe_code)]
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        // SAFETY: the caller's promise is passed on.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// Peak number of bytes held while `act` ran.
fn held_at_most<T>(act: impl FnOnce() -> T) -> usize {
    let before = HELD.with(Cell::get).0;
    HELD.with(|held| held.set((before, before)));
    let value = act();
    let most = HELD.with(Cell::get).1 - before;
    drop(value);
    usize::try_from(most).unwrap()
}

/// Decodes bytes as each type that an untrusted peer can send.
fn read_all(bytes: &[u8]) {
    let _ = skip(bytes, 1 << 20);
    let _ = msgpack::from_slice::<RequestMeta>(bytes);
    let _ = msgpack::from_slice::<NodeRegister>(bytes);
    let _ = msgpack::from_slice::<NodeUpdateAlloc>(bytes);
    let _ = msgpack::from_slice::<AllocGetAllocsAnswer>(bytes);
    if let Ok(tree) = Tree::read(bytes) {
        let written = tree.to_bytes();
        assert_eq!(Tree::read(&written).unwrap().to_bytes(), written);
    }
}

fn trees() -> impl Strategy<Value = Tree> {
    let leaf = prop_oneof![
        Just(Tree::Nil),
        any::<bool>().prop_map(Tree::Bool),
        any::<i64>().prop_map(Tree::Int),
        (0i64..40_000).prop_map(Tree::Int),
        (-40_000i64..0).prop_map(Tree::Int),
        (128u64..).prop_map(Tree::UInt),
        (128u64..70_000).prop_map(Tree::UInt),
        (-1e300f64..1e300).prop_map(Tree::Float),
        prop::collection::vec(any::<u8>(), 0..40).prop_map(Tree::Raw),
        "[A-Za-z]{0,40}".prop_map(|text| Tree::text(&text)),
    ];
    leaf.prop_recursive(5, 200, 20, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..20).prop_map(Tree::Array),
            prop::collection::vec(("[A-Z][a-z]{0,5}".prop_map(|key| Tree::text(&key)), inner), 0..20)
                .prop_map(Tree::Map),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn any_msgpack_value_survives_encoding(tree in trees()) {
        let bytes = tree.to_bytes();
        prop_assert_eq!(skip(&bytes, usize::MAX), Ok(Some(bytes.len())));
        prop_assert_eq!(Tree::read(&bytes).unwrap(), tree);
    }

    #[test]
    fn any_number_is_decoded_from_signed_and_unsigned_forms(n in any::<i64>(), small in -128i64..128) {
        for n in [n, small] {
            let text = n.to_string();
            prop_assert_eq!(msgpack::from_slice::<i64>(&msgpack::to_vec(&n).unwrap()).unwrap().to_string(), text.clone());
            if let Ok(unsigned) = u64::try_from(n) {
                prop_assert_eq!(msgpack::from_slice::<i64>(&msgpack::to_vec(&unsigned).unwrap()).unwrap().to_string(), text.clone());
                prop_assert_eq!(msgpack::from_slice::<u64>(&msgpack::to_vec(&n).unwrap()).unwrap().to_string(), text);
            }
        }
    }

    #[test]
    fn any_time_survives_msgpack(nanos in any::<i64>()) {
        let time = songline_model::Time::from_nanos(nanos);
        let bytes = msgpack::to_vec(&time).unwrap();
        prop_assert_eq!(bytes.len(), 16);
        prop_assert_eq!(msgpack::from_slice::<songline_model::Time>(&bytes).unwrap(), time);
    }

    #[test]
    fn random_bytes_decode_to_a_value_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        read_all(&bytes);
    }

    #[test]
    fn mutated_captured_bytes_decode_to_a_value_or_an_error(
        which in any::<prop::sample::Index>(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        end in any::<prop::sample::Index>(),
    ) {
        let all = captured::small_ones();
        let mut bytes = which.get(&all).clone();
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        read_all(&bytes);
        read_all(&bytes[..end.index(bytes.len())]);
    }
}

/// A field of a request with this value.
fn field(name: &str, value: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0x81, 0xa0 | name.len() as u8];
    bytes.extend_from_slice(name.as_bytes());
    bytes.extend_from_slice(value);
    bytes
}

#[test]
fn announced_lengths_allocate_nothing() {
    let announced = [
        b"\xdd\xff\xff\xff\xff".as_slice(),
        b"\xdf\xff\xff\xff\xff",
        b"\xdb\xff\xff\xff\xff",
        b"\xc6\xff\xff\xff\xff",
        b"\xc9\xff\xff\xff\xff\x01",
        b"\x91\xdd\xff\xff\xff\xff",
    ];
    for value in announced {
        for name in ["Alloc", "Allocs", "Node", "Region", "Nope"] {
            let bytes = field(name, value);
            let most = held_at_most(|| read_all(&bytes));
            assert!(most < 200_000, "{value:x?} as {name}: {most} bytes");
        }
        let most = held_at_most(|| read_all(value));
        assert!(most < 200_000, "{value:x?}: {most} bytes");
    }
}

#[test]
fn million_empty_rows_are_refused_before_using_much_memory() {
    const ROWS: usize = 1_000_000;
    for row in [0xc0, 0x80] {
        let mut list = vec![0xdd];
        list.extend_from_slice(&(ROWS as u32).to_be_bytes());
        list.resize(5 + ROWS, row);
        for name in ["Alloc", "Allocs"] {
            let bytes = field(name, &list);
            let mut refused = false;
            let most = held_at_most(|| {
                let updates = msgpack::from_slice::<NodeUpdateAlloc>(&bytes).is_err();
                let answer = msgpack::from_slice::<AllocGetAllocsAnswer>(&bytes).is_err();
                refused = updates || answer;
            });
            assert!(refused, "{row:x} as {name}");
            assert!(most < 64 << 20, "{row:x} as {name}: {most} bytes");
        }
    }
}

#[test]
fn deep_values_are_refused_on_a_small_stack() {
    let deep: Vec<u8> = std::iter::repeat_n(0x91, 1_000_000).chain([0xc0]).collect();
    let keys: Vec<u8> = b"\x81\xa1a".iter().copied().cycle().take(3_000_000).collect();
    let play = move || {
        for bytes in [deep, keys] {
            read_all(&bytes);
            for name in ["Alloc", "Node", "Nope"] {
                assert!(msgpack::from_slice::<NodeRegister>(&field(name, &bytes)).is_err());
            }
        }
    };
    std::thread::Builder::new().stack_size(1 << 20).spawn(play).unwrap().join().unwrap();
}

#[path = "../../../fuzz/src/corpus.rs"]
mod corpus;
#[path = "../../../fuzz/src/rpc.rs"]
mod fuzzed;

#[test]
fn the_corpus_of_the_fuzzer_is_read_or_refused() {
    corpus::replay("rpc", fuzzed::rpc);
}
