//! Bounds of [`Keeping`] after which a checkpoint is due.

use std::time::Duration;

use super::{Keeping, Unsaved};

#[test]
fn a_checkpoint_is_due_after_entries_after_bytes_and_after_time() {
    let keeping = Keeping {
        look_every: Duration::from_secs(20),
        entries_max: 1000,
        log_bytes_max: 256,
        age_max: Duration::from_secs(600),
    };
    let mut said = String::new();
    for (entries, log_bytes, checkpoint_bytes, seconds) in [
        (0, 64, 0, 700),
        (1, 64, 0, 599),
        (1, 64, 0, 600),
        (999, 255, 0, 0),
        (1000, 64, 5000, 0),
        (10, 256, 0, 0),
        (10, 256, 257, 0),
        (10, 4000, 4000, 0),
    ] {
        let unsaved = Unsaved { entries, log_bytes, checkpoint_bytes, age: Duration::from_secs(seconds) };
        let due = if keeping.is_due(unsaved) { "due" } else { "not due" };
        said += &format!("{entries} entries, {log_bytes} B after {checkpoint_bytes} B, {seconds} s: {due}\n");
    }
    expect_test::expect![[r#"
        0 entries, 64 B after 0 B, 700 s: not due
        1 entries, 64 B after 0 B, 599 s: not due
        1 entries, 64 B after 0 B, 600 s: due
        999 entries, 255 B after 0 B, 0 s: not due
        1000 entries, 64 B after 5000 B, 0 s: due
        10 entries, 256 B after 0 B, 0 s: due
        10 entries, 256 B after 257 B, 0 s: not due
        10 entries, 4000 B after 4000 B, 0 s: due
    "#]]
    .assert_eq(&said);
}
