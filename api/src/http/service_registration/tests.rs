//! Registrations that a key chooses.

use std::sync::Arc;

use expect_test::expect;
use songline_model::{AllocId, ServiceRegistration};

use super::{chosen, rank};

fn registration(n: u8) -> Arc<ServiceRegistration> {
    Arc::new(ServiceRegistration {
        id: format!("s{n}").into(),
        service_name: "web".into(),
        namespace: "default".into(),
        alloc_id: AllocId::from_bytes([n; 16]),
        tags: vec!["a".into(), "b".into()],
        address: "10.0.0.1".into(),
        port: 8000 + i64::from(n),
        ..ServiceRegistration::default()
    })
}

fn ids(choose: &str) -> String {
    let rows = (1..=4).map(registration).collect();
    match chosen(rows, choose) {
        Ok(rows) => rows.iter().map(|row| row.id.as_str()).collect::<Vec<_>>().join(" "),
        Err(error) => error.text.into_owned(),
    }
}

#[test]
fn choose_key_always_selects_the_same_registrations() {
    let told: String = ["1|k", "2|k", "9|k", "9|other", "0|k", "9|k|l", "1", "|k", "1|", "x|k", "-1|k", "1.5|k"]
        .iter()
        .map(|choose| format!("{choose}: {}\n", ids(choose)))
        .collect();
    expect![[r#"
        1|k: s4
        2|k: s4 s1
        9|k: s4 s1 s2 s3
        9|other: s1 s3 s4 s2
        0|k: 
        9|k|l: s2 s1 s3 s4
        1: failed to choose services: Parameter for choose must be in form '<number>|<key>'
        |k: failed to choose services: Parameter for choose must be in form '<number>|<key>'
        1|: failed to choose services: Parameter for choose must be in form '<number>|<key>'
        x|k: failed to choose services: Parameter for choose must be in form '<number>|<key>'
        -1|k: failed to choose services: Parameter for choose must be in form '<number>|<key>'
        1.5|k: failed to choose services: Parameter for choose must be in form '<number>|<key>'
    "#]]
    .assert_eq(&told);
}

#[test]
fn registration_rank_hashes_the_announced_fields_and_the_key() {
    let hex: String = rank(&registration(1), "k").iter().map(|byte| format!("{byte:02x}")).collect();
    // Hash of these bytes, computed with another tool.
    expect!["15bd0d5bb1ca9237d552e31f95f57bd8"].assert_eq(&hex);
}
