//! All migration steps, oldest first, and their helper functions. A released step is never changed.

use rmpv::Value;

use crate::Subject;
use crate::chain::Step;

pub(crate) const STEPS: &[Step] = &[
    // `At` did not say which time it was; beside `Index`, which is also that of the run, it was read as the time of
    // the row.
    Step { of: Subject::Table("idempotency"), from: 1, to: 2, change: |row| rename(row, "At", "RanAt") },
    // Rows may have `Refused` or `Answer`, for refused writes and kept answers. Older rows have neither, as have rows
    // to which they do not apply, so no change is needed.
    Step { of: Subject::Table("idempotency"), from: 2, to: 3, change: Ok },
    // An entry has an index of its own; the renamed one is the last index that the digest includes.
    Step { of: Subject::Command(1001), from: 1, to: 2, change: |body| rename(body, "index", "through") },
];

/// Renames a field, keeping its position. An absent field stays absent.
pub(crate) fn rename(value: Value, from: &str, to: &str) -> Result<Value, String> {
    let Value::Map(mut fields) = value else {
        return Err("it is no map".to_owned());
    };
    if fields.iter().any(|(name, _)| name.as_str() == Some(to)) {
        return Err(format!("it has a field {to:?} already"));
    }
    for (name, _) in &mut fields {
        if name.as_str() == Some(from) {
            *name = to.into();
        }
    }
    Ok(Value::Map(fields))
}
