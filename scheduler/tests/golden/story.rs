//! The form of the case files: stories with the expected output.

use crate::languages;

/// One story of a row.
pub(crate) struct Story<'a> {
    /// Section and number, such as `9.1/12`.
    pub(crate) row: String,
    /// The language of `given`, see [`languages::tell`].
    pub(crate) language: &'a str,
    title: &'a str,
    given: &'a str,
    expected: &'a str,
}

/// Reads the stories of a file. Each begins with `## ROW LANGUAGE: TITLE`, then come the lines of the story, a line
/// `=>`, and the expected output. Text before the first story is a comment.
pub(crate) fn read(text: &str) -> Vec<Story<'_>> {
    text.split("\n## ").skip(1).map(one).collect()
}

fn one(text: &str) -> Story<'_> {
    let malformed = || format!("not `ROW LANGUAGE: TITLE`, lines, `=>`, lines: {text}");
    let parts = || {
        let (head, body) = text.split_once('\n')?;
        let (name, title) = head.split_once(": ")?;
        let (row, language) = name.split_once(' ')?;
        let (given, expected) = body.split_once("\n=>\n")?;
        Some(Story { row: row.to_owned(), language, title, given, expected: expected.trim_end() })
    };
    parts().unwrap_or_else(|| panic!("{}", malformed()))
}

impl Story<'_> {
    /// Difference between the expected and the actual output, as text for people.
    pub(crate) fn difference(&self) -> Option<String> {
        let told = languages::tell(self.language, self.given);
        let Self { row, title, expected, .. } = self;
        (told.trim_end() != *expected)
            .then(|| format!("{row}, {title}: told\n{}\ninstead of\n{expected}\n", told.trim_end()))
    }
}
