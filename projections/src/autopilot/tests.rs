//! Stories of the autopilot configuration.

use expect_test::expect;

use crate::story::check;

#[test]
fn autopilot_config_cas_needs_the_stored_index() {
    check(
        "autopilot trailing=1 cas=0
         autopilot trailing=2
         autopilot trailing=3 cas=2
         autopilot trailing=4 cas=3
         autopilot trailing=5 cas=3
         show autopilot
         show tables",
        expect![[r#"
            autopilot trailing=1 cas=0: Cas(false)
            autopilot trailing=2: ok [+autopilot:]
            autopilot trailing=3 cas=2: Cas(false)
            autopilot trailing=4 cas=3: Cas(true) [~autopilot:]
            autopilot trailing=5 cas=3: Cas(false)
               autopilot: trailing=4 create=3 modify=5
               changed: autopilot-config=5
        "#]],
    );
}
