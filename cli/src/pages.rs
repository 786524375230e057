//! Filters and pages of lists.

use clap::Args;

use crate::client::Answer;
use crate::{Context, outln};

/// Flags of lists that come in pages.
#[derive(Args, Debug, Clone, Default)]
pub struct Page {
    /// Expression that selects items.
    #[arg(long)]
    pub filter: Option<String>,
    /// Most items of an answer.
    #[arg(long)]
    pub per_page: Option<i64>,
    /// Token at which the page begins: printed with the page before.
    #[arg(long)]
    pub page_token: Option<String>,
}

impl Page {
    /// The path with the parameters of filter and page.
    pub fn path(&self, path: &str, more: &[(&str, &str)]) -> String {
        let per_page = self.per_page.filter(|count| *count > 0).map(|count| count.to_string()).unwrap_or_default();
        let mut pairs = vec![
            ("filter", self.filter.as_deref().unwrap_or_default()),
            ("per_page", per_page.as_str()),
            ("next_token", self.page_token.as_deref().unwrap_or_default()),
        ];
        pairs.extend_from_slice(more);
        crate::client::with_query(path, &pairs)
    }

    /// Prints the command of the next page, if there is one.
    pub fn hint(answer: &Answer, context: &Context) {
        if let Some(token) = &answer.next_token {
            outln!("\nResults have been paginated. To get the next page run:\n\n{}", next(context, token));
        }
    }
}

/// The command as it was typed, with another token.
fn next(context: &Context, token: &str) -> String {
    let mut words = vec![context.program.clone()];
    let mut typed = context.typed.iter();
    while let Some(word) = typed.next() {
        match word.trim_start_matches('-').split_once('=') {
            Some(("page-token", _)) if word.starts_with('-') => {}
            None if word == "-page-token" || word == "--page-token" => {
                typed.next();
            }
            _ => words.push(quoted(word)),
        }
    }
    words.push("-page-token".to_owned());
    words.push(quoted(token));
    words.join(" ")
}

/// A word for a shell.
pub(crate) fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=@%+,".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn next_page_is_the_typed_command_with_another_token() {
        let typed = ["eval", "list", "-per-page=2", "-page-token", "old", "-filter", "A == \"b\""];
        let typed = typed.map(str::to_owned).to_vec();
        let context = Context { program: "nomad".into(), path: "eval list".into(), typed, commands: Vec::new() };
        assert_eq!(next(&context, "new"), "nomad eval list -per-page=2 -filter 'A == \"b\"' -page-token new");
    }
}
