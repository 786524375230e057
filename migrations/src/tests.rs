//! Tests: correct chains pass, each defect is reported by name; steps run in order, once, and only for their subject.

use rmpv::Value;

use crate::chain::{self, Step};
use crate::steps::rename;
use crate::{ChainError, MigrationError, SCHEMA, Subject, check, command, command_schema, row};

const NAMESPACES: Subject = Subject::Table("namespaces");

fn same(value: Value) -> Result<Value, String> {
    Ok(value)
}

fn describe(row: Value) -> Result<Value, String> {
    rename(row, "Comment", "Description")
}

fn shout(mut row: Value) -> Result<Value, String> {
    let Value::Map(fields) = &mut row else { return Err("it is no map".into()) };
    let text =
        fields.iter_mut().find(|(name, _)| name.as_str() == Some("Description")).ok_or("there is no Description")?;
    text.1 = text.1.as_str().map(str::to_uppercase).ok_or("the Description is no text")?.into();
    Ok(row)
}

const EXAMPLE: &[Step] = &[
    Step { of: NAMESPACES, from: 2, to: 4, change: shout },
    Step { of: NAMESPACES, from: 1, to: 2, change: describe },
];

fn bytes(fields: &[(&str, &str)]) -> Vec<u8> {
    let value = Value::Map(fields.iter().map(|&(name, text)| (name.into(), text.into())).collect());
    let mut out = Vec::new();
    rmpv::encode::write_value(&mut out, &value).expect("writes to memory");
    out
}

#[test]
fn migration_chains_lead_from_the_first_schema_to_the_newest() {
    check().expect("they lead from the first schema to the newest");
}

#[test]
fn each_migration_chain_mistake_has_its_own_error() {
    let step = |from, to| Step { of: NAMESPACES, from, to, change: same };
    let of = NAMESPACES;
    let cases = [
        (vec![step(1, 2), step(2, 3)], Ok(())),
        (vec![step(2, 3), step(1, 2)], Ok(())),
        (vec![step(2, 3), step(3, 3)], Err(ChainError::Circle { of, from: 3, to: 3 })),
        (vec![step(1, 2), step(2, 3), step(3, 1)], Err(ChainError::Circle { of, from: 3, to: 1 })),
        (vec![step(2, 3)], Err(ChainError::Gap { of, from: 1, next: 2 })),
        (vec![step(1, 2), step(1, 3)], Err(ChainError::Fork { of, from: 1 })),
        (vec![step(1, 3)], Err(ChainError::Empty(2))),
        (vec![step(1, 2), step(2, 4)], Err(ChainError::Beyond { of, to: 4, newest: 3 })),
        (vec![], Err(ChainError::Empty(2))),
    ];
    for (steps, expected) in cases {
        let named: Vec<_> = steps.iter().map(|step| (step.from, step.to)).collect();
        assert_eq!(chain::check(&steps, 3), expected, "{named:?}");
    }
    let kinds = [Step { of: Subject::Command(7), from: 2, to: 3, change: same }];
    assert_eq!(chain::check(&kinds, 1), Err(ChainError::Gap { of: Subject::Command(7), from: 1, next: 2 }));
}

#[test]
fn steps_run_from_the_rows_schema_to_the_newest() {
    let run = |from, row: &[u8]| chain::run(EXAMPLE, NAMESPACES, 4, from, row).expect("migrates").into_owned();
    let newest = bytes(&[("Name", "dev"), ("Description", "QUIET")]);
    assert_eq!(run(1, &bytes(&[("Name", "dev"), ("Comment", "quiet")])), newest);
    // Schema 2 and schema 3 have the same shape.
    for schema in [2, 3] {
        assert_eq!(run(schema, &bytes(&[("Name", "dev"), ("Description", "quiet")])), newest, "schema {schema}");
    }
    assert_eq!(run(4, &newest), newest);
}

#[test]
fn bytes_of_other_subjects_pass_untouched() {
    let old = bytes(&[("Comment", "quiet")]);
    let passed = chain::run(EXAMPLE, Subject::Table("nodes"), 4, 1, &old).expect("passes");
    assert!(matches!(passed, std::borrow::Cow::Borrowed(bytes) if bytes == old));
}

#[test]
fn rows_and_commands_that_cannot_be_migrated_are_errors() {
    let text = |result: Result<std::borrow::Cow<'_, [u8]>, MigrationError>| {
        result.map(|_| ()).expect_err("is refused").to_string()
    };
    assert_eq!(
        text(row("jobs", SCHEMA + 1, &[])),
        format!("table `jobs` has schema {}, this version knows up to {SCHEMA}", SCHEMA + 1)
    );
    assert_eq!(text(row("jobs", 0, &[])), "table `jobs` has schema 0, which never was");
    let newer = command_schema(4) + 1;
    assert_eq!(
        text(command(4, newer, &[])),
        format!("command 4 has schema {newer}, this version knows up to {}", newer - 1)
    );
    assert_eq!(text(chain::run(EXAMPLE, NAMESPACES, 4, 1, &[])), "table `namespaces` of schema 1 is no msgpack");
    let without = bytes(&[("Name", "dev")]);
    assert_eq!(
        text(chain::run(EXAMPLE, NAMESPACES, 4, 2, &without)),
        "table `namespaces` cannot go from schema 2 on: there is no Description"
    );
    let both = bytes(&[("Comment", "a"), ("Description", "b")]);
    assert_eq!(
        text(chain::run(EXAMPLE, NAMESPACES, 4, 1, &both)),
        "table `namespaces` cannot go from schema 1 on: it has a field \"Description\" already"
    );
}

#[test]
fn the_renamed_fields_of_schema_2_are_found_under_their_new_names() {
    let remembered = row("idempotency", 1, &bytes(&[("Key", "k"), ("At", "t")])).expect("migrates").into_owned();
    assert_eq!(remembered, bytes(&[("Key", "k"), ("RanAt", "t")]));
    let digest = command(1001, 1, &bytes(&[("schema", "1"), ("index", "9")])).expect("migrates").into_owned();
    assert_eq!(digest, bytes(&[("schema", "1"), ("through", "9")]));
}
