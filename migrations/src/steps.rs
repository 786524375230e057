//! Every step there is, oldest first, and the small changes that they are made of. A step that was released is never touched again.

use rmpv::Value;

use crate::Subject;
use crate::chain::Step;

pub(crate) const STEPS: &[Step] = &[
    // `At` said no more than any other time; next to `Index`, which is the run's too, it was read as the time of the row.
    Step { of: Subject::Table("idempotency"), from: 1, to: 2, change: |row| rename(row, "At", "RanAt") },
    // Rows may have `Refused` or `Answer`, for refused writes and kept answers. Both are left out where they do not apply, as in every
    // older row.
    Step { of: Subject::Table("idempotency"), from: 2, to: 3, change: Ok },
    // An entry has an index of its own: this one is the last that the digest counts.
    Step { of: Subject::Command(1001), from: 1, to: 2, change: |body| rename(body, "index", "through") },
];

/// Gives a field another name, in its place. A field that was left out stays left out.
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
