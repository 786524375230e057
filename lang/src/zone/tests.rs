//! Tests of zones, their local times, and unknown names.

use expect_test::expect;

use super::Zone;

#[test]
fn times_are_shown_in_the_local_time_of_their_zone() {
    let shown = |zone: &str, at: i64| {
        format!("{zone}: {}\n", Zone::named(zone).and_then(|zone| zone.shown(at)).unwrap_or_default())
    };
    // Winter and summer of 2027, and a summer after the end of tabulated changes.
    let all = ["", "UTC", "Local", "America/New_York", "Asia/Kolkata", "Europe/Berlin"];
    let told: String =
        all.iter().flat_map(|zone| [1_800_000_000, 1_815_000_000, 2_700_000_000].map(|at| shown(zone, at))).collect();
    expect![[r#"
        : 2027-01-15T08:00:00Z
        : 2027-07-07T22:40:00Z
        : 2055-07-24T00:00:00Z
        UTC: 2027-01-15T08:00:00Z
        UTC: 2027-07-07T22:40:00Z
        UTC: 2055-07-24T00:00:00Z
        Local: 2027-01-15T08:00:00Z
        Local: 2027-07-07T22:40:00Z
        Local: 2055-07-24T00:00:00Z
        America/New_York: 2027-01-15T03:00:00-05:00
        America/New_York: 2027-07-07T18:40:00-04:00
        America/New_York: 2055-07-23T20:00:00-04:00
        Asia/Kolkata: 2027-01-15T13:30:00+05:30
        Asia/Kolkata: 2027-07-08T04:10:00+05:30
        Asia/Kolkata: 2055-07-24T05:30:00+05:30
        Europe/Berlin: 2027-01-15T09:00:00+01:00
        Europe/Berlin: 2027-07-08T00:40:00+02:00
        Europe/Berlin: 2055-07-24T02:00:00+02:00
    "#]]
    .assert_eq(&told);
}

#[test]
fn unknown_names_have_no_time_zone() {
    for name in ["Atlantis", "europe/berlin", "../UTC", "/UTC", "+02:00"] {
        assert_eq!(Zone::named(name), None, "{name}");
    }
}
