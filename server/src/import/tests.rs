//! Records that Nomad accepts although its servers do not write them: other orders, doubled and missing fields.

use std::io::Cursor;

use songline_model::{EvalId, RootKeyMeta, WrappedKey};
use songline_projections::{State, Table};

use super::{ImportError, Options, RootKeys};
use crate::archive::{Configuration, Meta};

/// No key files.
struct NoKeys;

impl RootKeys for NoKeys {
    fn wrapped(&self, _meta: &RootKeyMeta) -> Result<Option<WrappedKey>, String> {
        Ok(None)
    }
}

/// One map with texts and numbers, in the dialect of the archive.
fn map(fields: &[(&str, Value)]) -> Vec<u8> {
    let mut out = vec![0x80 | fields.len() as u8];
    for (name, value) in fields {
        text(&mut out, name);
        match value {
            Value::Text(value) => text(&mut out, value),
            Value::Number(value) => {
                out.push(0xcf);
                out.extend_from_slice(&value.to_be_bytes());
            }
            Value::Nil => out.push(0xc0),
        }
    }
    out
}

enum Value {
    Text(&'static str),
    Number(u64),
    Nil,
}
use Value::{Nil, Number, Text};

fn text(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(&[0xda, 0, text.len() as u8]);
    out.extend_from_slice(text.as_bytes());
}

fn import(records: &[(u8, Vec<u8>)]) -> Result<State, ImportError> {
    let mut content = vec![0x80];
    for (kind, value) in records {
        content.push(*kind);
        content.extend_from_slice(value);
    }
    let meta = Meta {
        version: 1,
        id: "2-50-1".into(),
        index: 50,
        term: 2,
        peers: String::new(),
        configuration: Configuration { servers: Vec::new() },
        configuration_index: 1,
        size: content.len() as u64,
    };
    super::read(&mut Cursor::new(content), &meta, &NoKeys, Options::default()).map(|imported| imported.state)
}

const ID: &str = "0b9d2b3c-0000-4000-8000-000000000001";

fn eval(status: &'static str, index: u64) -> (u8, Vec<u8>) {
    let fields = [
        ("ID", Text(ID)),
        ("Status", Text(status)),
        ("JobID", Text("web")),
        ("FromTheFuture", Text("skipped")),
        ("CreateIndex", Number(index)),
        ("WaitUntil", Nil),
    ];
    (3, map(&fields))
}

#[test]
fn later_one_of_two_records_with_one_key_wins() {
    let state = import(&[eval("pending", 7), eval("complete", 9)]).expect("is valid");
    let id: EvalId = ID.parse().expect("is an id");
    let row = state.eval(id).expect("is there");
    assert_eq!((row.status.as_str(), row.create_index, state.evals().count()), ("complete", 9, 1));
    let again = import(&[eval("complete", 9)]).expect("is valid");
    assert_eq!(state.digest(), again.digest(), "the replaced row left something behind");
}

#[test]
fn tables_keep_the_indexes_of_the_archive() {
    let index = |key: &'static str, value| (2, map(&[("Key", Text(key)), ("Value", Number(value))]));
    let records = [index("evals", 31), index("vault_accessors", 12), index("acl_token_bootstrap", 5)];
    let state = import(&records).expect("is valid");
    assert_eq!(state.table_index(Table::Evals), 31);
    assert_eq!(state.applied_index(), 50);
    assert_eq!(state.table_len(Table::AclTokenBootstrap), 1);
}

#[test]
fn active_root_key_without_its_file_is_not_active_any_more() {
    let fields = [("KeyID", Text(ID)), ("Algorithm", Text("aes256-gcm")), ("State", Text("active"))];
    let state = import(&[(24, map(&fields))]).expect("is valid");
    assert!(state.active_root_key().is_none());
    assert_eq!(state.table_len(Table::RootKeys), 1);
}

#[test]
fn deployment_without_its_job_is_cancelled() {
    let fields = [("ID", Text(ID)), ("JobID", Text("gone")), ("Status", Text("running"))];
    let index = (2, map(&[("Key", Text("deployment")), ("Value", Number(40))]));
    let state = import(&[index, (10, map(&fields))]).expect("is valid");
    let row = state.deployments().next().expect("is there");
    assert_eq!((row.status.as_str(), row.modify_index), ("cancelled", 40));
}

#[test]
fn refusal_names_record_type_and_offset() {
    let wrong = (3, map(&[("ID", Number(3))]));
    let error = import(&[eval("pending", 7), wrong]).expect_err("an id is no number").to_string();
    assert!(error.starts_with("record 2 (evaluation, type 3 at byte "), "{error}");
    let error = import(&[(77, vec![0x80])]).expect_err("is unknown").to_string();
    assert!(error.starts_with("record 1 at byte 1 has type 77, which is unknown"), "{error}");
}
