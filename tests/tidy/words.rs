//! Words that stay out of code, comments and documents, each with the term of the glossary that says the same.

use anyhow::Result;

use crate::tree;

/// A private word, and the term to use.
const PRIVATE: &[(&str, &str)] =
    &[("reign", "leadership term"), ("lens", "rendering"), ("patience", "timeout"), ("whoever", "the noun")];

/// Files of the reference's words, and this list.
const EXEMPT: &[&str] = &["tests/conformance/", "fuzz/", "tests/tidy/words.rs"];

#[test]
fn private_words_stay_out() -> Result<()> {
    let mut complaints = Vec::new();
    for file in tree::files(&[".rs", ".md"])? {
        if EXEMPT.iter().any(|exempt| file.path.starts_with(exempt)) {
            continue;
        }
        for (at, line) in file.text.lines().enumerate() {
            let words = line.split(|letter: char| !letter.is_alphanumeric() && letter != '-');
            for word in words {
                let word = word.to_lowercase();
                if let Some((_, term)) = PRIVATE.iter().find(|(private, _)| word == *private) {
                    complaints.push(format!("{}:{}: {word}: say {term}", file.path, at + 1));
                }
            }
        }
    }
    tree::no_complaints(complaints)
}

#[test]
fn few_doc_comments_begin_with_a_pronoun() -> Result<()> {
    /// More than these need the noun in front.
    const DOCS_MAX: usize = 5;
    const PRONOUNS: &[&str] = &["What ", "Who ", "Whose ", "Which ", "Where ", "Nobody ", "Whatever ", "Whoever "];
    let mut found = Vec::new();
    for file in tree::files(&[".rs"])? {
        for (at, line) in file.text.lines().enumerate() {
            let line = line.trim_start();
            let doc = line.strip_prefix("/// ").or_else(|| line.strip_prefix("//! "));
            if doc.is_some_and(|doc| PRONOUNS.iter().any(|pronoun| doc.starts_with(pronoun))) {
                found.push(format!("{}:{}: {line}", file.path, at + 1));
            }
        }
    }
    if found.len() > DOCS_MAX { tree::no_complaints(found) } else { Ok(()) }
}
