//! Tests of versions against constraints, and of malformed texts.

use expect_test::{Expect, expect};
use proptest::prelude::*;

use super::{Constraints, Dialect, Version};

/// One line per `version : constraint`: whether it holds, or the malformed part.
#[expect(clippy::needless_pass_by_value, reason = "reads better at the call")]
fn check(dialect: Dialect, cases: &str, expected: Expect) {
    let lines: Vec<String> = cases
        .lines()
        .map(str::trim)
        .map(|case| {
            let (version, constraint) = case.split_once(" : ").expect("a case has a colon");
            let said = match (Version::parse(version), Constraints::parse(constraint, dialect)) {
                (Err(error), _) => error.to_string(),
                (_, Err(error)) => error.to_string(),
                (Ok(version), Ok(constraints)) => constraints.check(&version).to_string(),
            };
            format!("{case} => {said}")
        })
        .collect();
    expected.assert_eq(&lines.join("\n"));
}

#[test]
fn versions_are_lenient_and_padded() {
    let lines: Vec<String> = [
        "1",
        "v1.2",
        "1.2.3.4",
        "1.0beta2",
        "1.0-beta.2+meta",
        "1.2.3--x",
        "1.2-",
        "",
        "x",
        "1..2",
        "1.2.3_4",
        " 1.0",
        "99999999999999999999",
    ]
    .iter()
    .map(|text| match Version::parse(text) {
        Ok(version) => format!("{text} = {version}"),
        Err(error) => error.to_string(),
    })
    .collect();
    expect![[r#"
        1 = 1.0.0
        v1.2 = 1.2.0
        1.2.3.4 = 1.2.3.4
        1.0beta2 = 1.0.0-beta2
        1.0-beta.2+meta = 1.0.0-beta.2+meta
        1.2.3--x = 1.2.3--x
        1.2- = 1.2.0--
        Malformed version: 
        Malformed version: x
        Malformed version: 1..2
        Malformed version: 1.2.3_4
        Malformed version:  1.0
        Error parsing version: strconv.ParseInt: parsing "99999999999999999999": value out of range"#]]
    .assert_eq(&lines.join("\n"));
}

#[test]
fn the_version_operand_has_the_pessimistic_operator_and_guards_prereleases() {
    check(
        Dialect::Version,
        "1.2.3 : 1.2.3
         1.2.3 : = 1.2.3+build
         1.2.3 : >= 1.0, < 1.4
         1.4.0 : >= 1.0, < 1.4
         1.7.0-dev : >= 1.6
         1.7.0-beta1 : >= 1.7.0-alpha1
         1.7.1-beta1 : >= 1.7.0-alpha1
         1.7.0 : > 1.7.0-rc1
         1.6.0-dev : != 1.6.0
         1.6.0-dev : = 1.6.0-dev
         2.0 : ~> 1.0
         1.9 : ~> 1.0
         1.0.9 : ~> 1.0.5
         1.0.4 : ~> 1.0.5
         1.1.0 : ~> 1.0.5
         1.2.3 : ~> 1
         2.0.0 : ~> 1
         1.2.3 : ~> 1.2.3.4
         1.2.3 : ~> 1.2.3-beta
         1.2.3-rc : ~> 1.2.3-beta
         1.2.3 : ~ 1
         1.2.3 : ,
         1.2.3 : > 1.x",
        expect![[r#"
            1.2.3 : 1.2.3 => true
            1.2.3 : = 1.2.3+build => true
            1.2.3 : >= 1.0, < 1.4 => true
            1.4.0 : >= 1.0, < 1.4 => false
            1.7.0-dev : >= 1.6 => false
            1.7.0-beta1 : >= 1.7.0-alpha1 => true
            1.7.1-beta1 : >= 1.7.0-alpha1 => false
            1.7.0 : > 1.7.0-rc1 => true
            1.6.0-dev : != 1.6.0 => true
            1.6.0-dev : = 1.6.0-dev => true
            2.0 : ~> 1.0 => false
            1.9 : ~> 1.0 => true
            1.0.9 : ~> 1.0.5 => true
            1.0.4 : ~> 1.0.5 => false
            1.1.0 : ~> 1.0.5 => false
            1.2.3 : ~> 1 => true
            2.0.0 : ~> 1 => true
            1.2.3 : ~> 1.2.3.4 => false
            1.2.3 : ~> 1.2.3-beta => false
            1.2.3-rc : ~> 1.2.3-beta => true
            1.2.3 : ~ 1 => Malformed constraint: ~ 1
            1.2.3 : , => Malformed constraint: 
            1.2.3 : > 1.x => Malformed constraint: > 1.x"#]],
    );
}

#[test]
fn semver_operand_orders_prereleases_and_has_no_pessimistic_operator() {
    check(
        Dialect::Semver,
        "1.7.0-dev : >= 1.6.0
         1.7.0-dev : < 1.7.0
         1.7.0-alpha.2 : > 1.7.0-alpha.1
         1.7.0-alpha.10 : > 1.7.0-alpha.9
         1.7.0-alpha : > 1.7.0-1
         1.7.0+a : = 1.7.0+b
         1.2.3 : ~> 1.2
         1.2.3 : >= 1.0.0, != 1.2.3
         1.0.0 : >= 1.0beta",
        expect![[r#"
            1.7.0-dev : >= 1.6.0 => true
            1.7.0-dev : < 1.7.0 => true
            1.7.0-alpha.2 : > 1.7.0-alpha.1 => true
            1.7.0-alpha.10 : > 1.7.0-alpha.9 => true
            1.7.0-alpha : > 1.7.0-1 => true
            1.7.0+a : = 1.7.0+b => true
            1.2.3 : ~> 1.2 => Malformed constraint: ~> 1.2
            1.2.3 : >= 1.0.0, != 1.2.3 => false
            1.0.0 : >= 1.0beta => Malformed constraint: >= 1.0beta"#]],
    );
}

proptest! {
    #[test]
    fn random_text_never_panics(version in "[v0-9a-z.~+-]{0,12}", constraint in "[ v0-9a-z.~>=<!,+-]{0,16}") {
        for dialect in [Dialect::Version, Dialect::Semver] {
            if let (Ok(version), Ok(constraints)) = (Version::parse(&version), Constraints::parse(&constraint, dialect)) {
                let _ = constraints.check(&version);
            }
        }
    }

    #[test]
    fn version_order_is_antisymmetric(a in "[0-3](\\.[0-3]){0,3}(-[a-c0-2](\\.[a-c0-2])?)?", b in "[0-3](\\.[0-3]){0,3}(-[a-c0-2](\\.[a-c0-2])?)?") {
        let (a, b) = (Version::parse(&a).expect("fine"), Version::parse(&b).expect("fine"));
        prop_assert_eq!(a.compare(&b), b.compare(&a).reverse());
    }
}
