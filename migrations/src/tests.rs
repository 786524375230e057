//! Steps run in order, each once, and only for their table; what schema 1 wrote is still what it was.

use rmpv::Value;

use super::{MigrationError, SCHEMA, STEPS, Step, row, run};

fn field(value: &mut Value, name: &str) -> Option<Value> {
    let Value::Map(fields) = value else { return None };
    let at = fields.iter().position(|(key, _)| key.as_str() == Some(name))?;
    Some(fields.remove(at).1)
}

fn rename(mut value: Value) -> Result<Value, String> {
    let moved = field(&mut value, "Comment").ok_or("there is no Comment")?;
    let Value::Map(fields) = &mut value else { return Err("it is no map".into()) };
    fields.push(("Description".into(), moved));
    Ok(value)
}

fn shout(mut value: Value) -> Result<Value, String> {
    let text = field(&mut value, "Description").and_then(|text| text.as_str().map(str::to_uppercase)).ok_or("there is no Description")?;
    let Value::Map(fields) = &mut value else { return Err("it is no map".into()) };
    fields.push(("Description".into(), text.into()));
    Ok(value)
}

const EXAMPLE: &[Step] = &[Step { table: "namespaces", from: 2, change: shout }, Step { table: "namespaces", from: 1, change: rename }];

fn bytes(value: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    rmpv::encode::write_value(&mut out, value).expect("writes to memory");
    out
}

fn old_row() -> Vec<u8> {
    bytes(&Value::Map(vec![("Name".into(), "dev".into()), ("Comment".into(), "quiet".into())]))
}

#[test]
fn steps_run_from_the_rows_schema_to_the_current_one() {
    let old = old_row();
    let new = run(EXAMPLE, 3, "namespaces", 1, &old).expect("migrates");
    assert_eq!(&*new, bytes(&Value::Map(vec![("Name".into(), "dev".into()), ("Description".into(), "QUIET".into())])));
}

#[test]
fn rows_of_other_tables_and_of_the_current_schema_pass_untouched() {
    let old = old_row();
    for (table, from) in [("nodes", 1), ("namespaces", 3)] {
        assert!(matches!(run(EXAMPLE, 3, table, from, &old), Ok(std::borrow::Cow::Borrowed(bytes)) if bytes == old), "{table} {from}");
    }
}

#[test]
fn what_cannot_be_migrated_is_an_error() {
    assert!(matches!(row("jobs", SCHEMA + 1, &[]), Err(MigrationError::Newer { .. })));
    assert!(matches!(
        run(EXAMPLE, 3, "namespaces", 1, &[0xc1, 0]),
        Err(MigrationError::Unreadable { .. } | MigrationError::Refused { .. })
    ));
    assert!(matches!(run(EXAMPLE, 3, "namespaces", 2, &old_row()), Err(MigrationError::Refused { from: 2, .. })));
}

#[test]
fn steps_are_in_the_range_of_schemas_that_were_released() {
    assert!(STEPS.iter().all(|step| (1..SCHEMA).contains(&step.from)));
}
