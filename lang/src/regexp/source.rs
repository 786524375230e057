//! The text of an expression, and how far it is read.

/// A place in an expression.
#[derive(Debug, Clone, Copy)]
pub struct Source<'a> {
    text: &'a str,
    at: usize,
    /// Start of the last `:]`. Without it, each `[:` of an expression that has no `:]` would search all the rest.
    last_class_end: Option<usize>,
}

impl<'a> Source<'a> {
    pub fn new(text: &'a str) -> Self {
        Self { text, at: 0, last_class_end: text.rfind(":]") }
    }

    /// The whole expression.
    pub fn text(&self) -> &'a str {
        self.text
    }

    /// Bytes already read.
    pub fn at(&self) -> usize {
        self.at
    }

    /// The unread part.
    pub fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    /// The part read since an earlier place.
    pub fn since(&self, from: usize) -> &'a str {
        &self.text[from..self.at]
    }

    pub fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    /// Reads one character.
    pub fn next(&mut self) -> Option<char> {
        let letter = self.peek()?;
        self.at += letter.len_utf8();
        Some(letter)
    }

    /// Reads a prefix, if the unread part begins with it.
    pub fn eat(&mut self, prefix: &str) -> bool {
        let begins = self.rest().starts_with(prefix);
        if begins {
            self.at += prefix.len();
        }
        begins
    }

    /// Reads to the end of the first `end`. `None`, and nothing is read, if there is none.
    pub fn through(&mut self, end: &str) -> Option<&'a str> {
        let from = self.at;
        self.at += self.rest().find(end)? + end.len();
        Some(self.since(from))
    }

    /// Reads to the end of the first `:]`. `None`, and nothing is read, if there is none.
    pub fn through_class_end(&mut self) -> Option<&'a str> {
        if self.last_class_end? < self.at { None } else { self.through(":]") }
    }

    /// Reads everything.
    pub fn finish(&mut self) {
        self.at = self.text.len();
    }
}
