//! Regular expressions of filters and constraints: the syntax of RE2, with its error texts for common mistakes.

use regex::{Regex, RegexBuilder};

/// Largest size of a compiled expression in bytes.
const COMPILED_BYTES_MAX: usize = 1 << 20;

/// Compiles an expression that matches anywhere in a text.
pub fn compile(expression: &str) -> Result<Regex, Error> {
    RegexBuilder::new(expression)
        .size_limit(COMPILED_BYTES_MAX)
        .build()
        .map_err(|error| Error(reason(expression, &error)))
}

/// An expression was refused; displays as `error parsing regexp: ..`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("error parsing regexp: {0}")]
pub struct Error(String);

fn reason(expression: &str, error: &regex::Error) -> String {
    let text = error.to_string();
    let said = text.rsplit("error: ").next().unwrap_or(&text).trim();
    match said {
        "unclosed group" => format!("missing closing ): `{expression}`"),
        "unopened group" => format!("unexpected ): `{expression}`"),
        "unclosed character class" => {
            let from = expression.rfind('[').unwrap_or(0);
            format!("missing closing ]: `{}`", &expression[from..])
        }
        "repetition operator missing expression" => {
            let operator = expression.chars().find(|c| matches!(c, '*' | '+' | '?')).unwrap_or('*');
            format!("missing argument to repetition operator: `{operator}`")
        }
        "incomplete escape sequence, reached end of pattern prematurely" => {
            "trailing backslash at end of expression: ``".to_string()
        }
        _ if matches!(error, regex::Error::CompiledTooBig(_)) => "expression too large".to_string(),
        other => format!("{other}: `{expression}`"),
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::compile;

    #[test]
    fn regexp_errors_have_the_reference_texts() {
        let lines: Vec<String> = ["(", "a)", "x[a", "*a", "a\\", "a**"]
            .iter()
            .map(|text| match compile(text) {
                Ok(_) => format!("{text}: fine"),
                Err(error) => error.to_string(),
            })
            .collect();
        expect![[r#"
            error parsing regexp: missing closing ): `(`
            error parsing regexp: unexpected ): `a)`
            error parsing regexp: missing closing ]: `[a`
            error parsing regexp: missing argument to repetition operator: `*`
            error parsing regexp: trailing backslash at end of expression: ``
            a**: fine"#]]
        .assert_eq(&lines.join("\n"));
    }
}
