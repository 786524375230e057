//! Input of nodes and strangers on the servers' port: values of the dialect, and messages in it. Bytes are read or
//! refused; what was read is written, and read again as the same.

use songline_rpc::message::{Call, RequestMeta, StreamCall, StreamErrWrapper};
use songline_rpc::msgpack::{Scanner, Tree, from_slice, skip, to_vec};
use songline_rpc::net::{RequestHeader, ResponseHeader};

/// The most that a value may take here, in bytes.
const VALUE_BYTES_MAX: usize = 1 << 20;

/// First byte: which message; the rest: its bytes.
pub fn rpc(input: &[u8]) {
    let Some((which, bytes)) = input.split_first() else { return };
    value(bytes);
    let readers = readers();
    readers[usize::from(*which) % readers.len()](bytes);
}

/// As a value of any kind.
fn value(bytes: &[u8]) {
    let whole = skip(bytes, VALUE_BYTES_MAX);
    let mut scanner = Scanner::new(VALUE_BYTES_MAX);
    let piecewise =
        (0..=bytes.len()).map(|end| scanner.scan(&bytes[..end])).find(|found| *found != Ok(None)).unwrap_or(Ok(None));
    assert_eq!(piecewise, whole, "a value in pieces ends where it does in one");
    let tree = Tree::read(bytes);
    if let Ok(tree) = &tree {
        assert_eq!(whole, Ok(Some(bytes.len())), "what is read is a value");
        let written = tree.to_bytes();
        let again = Tree::read(&written).expect("what was written can be read");
        assert_eq!(again.to_bytes(), written, "what was written is read as it was");
    }
}

type Reader = fn(&[u8]);

/// One for each message there is.
pub fn readers() -> Vec<Reader> {
    let mut readers: Vec<Reader> =
        vec![message::<RequestHeader>, message::<ResponseHeader>, message::<RequestMeta>, message::<StreamErrWrapper>];
    macro_rules! calls {
        ($($request:ident)*) => { $(
            readers.push(message::<songline_rpc::message::$request>);
            readers.push(message::<<songline_rpc::message::$request as Call>::Answer>);
        )* };
    }
    macro_rules! streams {
        ($($request:ident)*) => { $(
            debug_assert!(!songline_rpc::message::$request::METHOD.is_empty());
            readers.push(message::<songline_rpc::message::$request>);
        )* };
    }
    songline_rpc::every_call!(calls);
    songline_rpc::every_stream!(streams);
    readers
}

/// As a message.
fn message<T: serde::Serialize + serde::de::DeserializeOwned>(bytes: &[u8]) {
    let Ok(message) = from_slice::<T>(bytes) else { return };
    let written = to_vec(&message).expect("what was read can be written");
    let again: T = from_slice(&written).expect("what was written can be read");
    assert_eq!(to_vec(&again).expect("what was read can be written"), written, "what was written is read as it was");
}
