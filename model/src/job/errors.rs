//! Several errors or warnings as one text, with the nesting that clients print.

use std::fmt;

/// List of errors, in the order of the checks.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Errors(Vec<String>);

impl Errors {
    /// The empty list.
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    /// Adds one error.
    pub fn push(&mut self, error: impl Into<String>) {
        self.0.push(error.into());
    }

    /// Adds the inner errors as one error.
    pub fn nest(&mut self, inner: Result<(), Errors>) {
        if let Err(errors) = inner {
            self.0.push(errors.to_string());
        }
    }

    /// Adds the inner errors as one error with a name before it.
    pub fn nest_as(&mut self, name: impl fmt::Display, inner: Result<(), Errors>) {
        if let Err(errors) = inner {
            self.0.push(format!("{name}: {errors}"));
        }
    }

    /// Adds a single error with a name before it.
    pub fn push_as(&mut self, name: impl fmt::Display, inner: Result<(), String>) {
        if let Err(error) = inner {
            self.0.push(format!("{name}: {error}"));
        }
    }

    /// Adds a single error.
    pub fn check(&mut self, inner: Result<(), String>) {
        if let Err(error) = inner {
            self.0.push(error);
        }
    }

    /// Adds each inner error as an error of its own.
    pub fn extend(&mut self, inner: Result<(), Errors>) {
        if let Err(errors) = inner {
            self.0.extend(errors.0);
        }
    }

    /// Whether there are no errors.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The errors, one per item.
    pub fn list(&self) -> &[String] {
        &self.0
    }

    /// `Err` with the list, unless it is empty.
    pub fn into_result(self) -> Result<(), Errors> {
        if self.is_empty() { Ok(()) } else { Err(self) }
    }
}

impl fmt::Display for Errors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.as_slice() {
            [only] => write!(f, "1 error occurred:\n\t* {only}\n\n"),
            several => write!(f, "{} errors occurred:\n\t* {}\n\n", several.len(), several.join("\n\t* ")),
        }
    }
}

impl std::error::Error for Errors {}

impl From<String> for Errors {
    fn from(error: String) -> Self {
        Self(vec![error])
    }
}

/// Warnings as one text; empty for no warnings. Unlike a list of errors, the text does not end with empty lines.
pub fn warnings_text(warnings: &[String]) -> String {
    let text = match warnings {
        [] => String::new(),
        [only] => format!("1 warning:\n\n* {only}"),
        several => format!("{} warnings:\n\n* {}", several.len(), several.join("\n* ")),
    };
    text.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_of_warnings_does_not_end_with_the_empty_lines_of_an_inner_list() {
        let inner = Errors::from("too many".to_owned());
        assert_eq!(
            warnings_text(&[format!("Group has warnings: {inner}")]),
            "1 warning:\n\n* Group has warnings: 1 error occurred:\n\t* too many"
        );
    }
}
