//! Tests of HCL 1 errors and their positions.

use expect_test::expect;
use proptest::prelude::*;

use super::parse;

#[test]
fn hcl1_syntax_errors_have_line_and_column() {
    let texts = [
        "a",
        "a = ",
        "a {",
        "a = {",
        "a b = 1",
        "= 1",
        "{ }",
        "a = [1 2]",
        "a = [1, {b = }]",
        "a = b",
        "a = \"x",
        "a = @",
        "5 = 1",
        "a { b }",
        "a = <<E\nx\n",
        "a = \"${\"x\"}\"",
        "/* x",
    ];
    let lines: Vec<String> = texts
        .iter()
        .map(|text| match parse(text) {
            Ok(items) => format!("{text:?}: {} items", items.len()),
            Err(error) => format!("{text:?}: {error}"),
        })
        .collect();
    expect![[r#"
        "a": At 1:2: key 'a' expected start of object ('{') or assignment ('=')
        "a = ": 0 items
        "a {": At 1:5: object expected closing RBRACE got: EOF
        "a = {": At 1:7: object expected closing RBRACE got: EOF
        "a b = 1": At 1:5: nested object expected: LBRACE got: ASSIGN
        "= 1": At 1:1: no object keys found!
        "{ }": At 1:1: expected: IDENT | STRING got: LBRACE
        "a = [1 2]": At 1:8: error parsing list, expected comma or list end, got: NUMBER
        "a = [1, {b = }]": At 1:9: error while trying to parse object within list: At 1:15: object expected closing RBRACE got: RBRACK
        "a = b": At 1:5: Unknown token: 1:5 IDENT b
        "a = \"x": At 1:7: literal not terminated
        "a = @": At 1:5: illegal char
        "5 = 1": At 1:1: expected: IDENT | STRING | ASSIGN | LBRACE got: NUMBER
        "a { b }": At 1:7: key 'b' expected start of object ('{') or assignment ('=')
        "a = <<E\nx\n": At 3:1: heredoc not terminated
        "a = \"${\"x\"}\"": 1 items
        "/* x": At 1:5: comment not terminated"#]]
    .assert_eq(&lines.join("\n"));
}

#[test]
fn nesting_is_bounded() {
    assert!(parse(&"a {".repeat(10_000)).expect_err("too deep").message.contains("too deeply"));
    assert!(parse(&format!("a = {}", "[".repeat(10_000))).expect_err("too deep").message.contains("too deeply"));
}

proptest! {
    #[test]
    fn random_text_never_panics(text in ".{0,60}", near in "[a\"={}\\[\\],\\n <E#/*$0-9.-]{0,40}") {
        let _ = (parse(&text), parse(&near));
    }
}
