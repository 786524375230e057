//! Quoted strings and heredocs: literals, escapes, interpolations, and the directives `if` and `for`.

mod directive;

use super::ast::Expression;
use super::lex::{Kind, Token};
use super::parse::Parser;
use super::{Position, Range};
use directive::Parts;

/// Part of a template before its directives are matched.
enum Part {
    Literal(String, Range),
    Value(Expression),
    If(Expression, Range),
    For {
        key: Option<String>,
        value: String,
        collection: Expression,
        range: Range,
    },
    Ending(Ending, Range),
    /// The end of the template.
    End(Range),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Ending {
    Else,
    EndIf,
    EndFor,
}

impl Ending {
    fn name(self) -> &'static str {
        match self {
            Ending::Else => "else",
            Ending::EndIf => "endif",
            Ending::EndFor => "endfor",
        }
    }
}

impl<'a> Parser<'a> {
    /// Parses a template from its opening mark to `close`. `flush`: remove the common indentation.
    pub(super) fn template(&mut self, close: Kind, flush: bool) -> Expression {
        let open = self.read();
        let mut parts = self.template_parts(close);
        if flush {
            take_indentation(&mut parts);
        }
        let range = open.range.to(self.previous());
        self.joined(parts, range)
    }

    /// Parses a text that is a template as a whole.
    pub(super) fn bare_template(&mut self, start: Position) -> Expression {
        let parts = self.template_parts(Kind::End);
        let range = Range { start, end: self.previous().end };
        self.joined(parts, range)
    }

    fn joined(&mut self, parts: Vec<Part>, range: Range) -> Expression {
        if let [Part::Value(_), Part::End(_)] = parts.as_slice() {
            if let Some(Part::Value(only)) = parts.into_iter().next() {
                return Expression::TemplateWrap(Box::new(only), range);
            }
            return Expression::Template(Vec::new(), range);
        }
        let mut queue = Parts { parts: parts.into_iter().peekable() };
        let mut expressions = Vec::new();
        loop {
            match queue.parts.peek() {
                None | Some(Part::End(_)) => break,
                Some(_) => match self.part_expression(&mut queue) {
                    Some(expression) => expressions.push(expression),
                    None => break,
                },
            }
        }
        Expression::Template(expressions, range)
    }

    fn template_parts(&mut self, close: Kind) -> Vec<Part> {
        let mut parts: Vec<Part> = Vec::new();
        let mut trim_next = false;
        let end = loop {
            let token = self.read();
            if token.kind == close {
                break token.range;
            }
            let trim = std::mem::take(&mut trim_next);
            match token.kind {
                Kind::QuotedLiteral | Kind::HeredocLiteral => {
                    let mut text = self.unescape(token);
                    if trim {
                        text = text.trim_start().to_string();
                    }
                    parts.push(Part::Literal(text, token.range));
                }
                Kind::Interpolation { trim } => {
                    trim_before(trim, &mut parts);
                    let (expression, trims) = self.with_newlines(false, |parser| parser.interpolation(token));
                    trim_next = trims;
                    parts.push(Part::Value(expression));
                }
                Kind::Control { trim } => {
                    trim_before(trim, &mut parts);
                    trim_next = self.with_newlines(false, |parser| parser.directive(token, &mut parts));
                }
                _ => {
                    self.report_new(
                        token.range,
                        "Unterminated template string",
                        "No closing marker was found for the string.",
                    );
                    break self.recover(close).range;
                }
            }
        };
        if parts.is_empty() {
            // As in the reference, the content of an empty string is said to be behind its closing quote.
            parts.push(Part::Literal(String::new(), Range { start: end.end, end: end.end }));
        }
        parts.push(Part::End(end));
        parts
    }

    /// Parses up to the `}` of an interpolation. Returns also whether the following white space is trimmed.
    fn interpolation(&mut self, open: Token<'a>) -> (Expression, bool) {
        let (mut expression, _) = self.attempt(Self::expression);
        let close = self.peek();
        let Kind::SequenceEnd { trim } = close.kind else {
            let detail = if close.kind == Kind::Colon {
                "Template interpolation doesn't expect a colon at this location. Did you intend this to be a literal sequence to be \
                 processed as part of another language? If so, you can escape it by starting with \"$${\" instead of just \"${\"."
            } else {
                "Expected a closing brace to end the interpolation expression, but found extra characters."
            };
            self.report_new(close.range, "Extra characters after interpolation expression", detail);
            self.recover(Kind::SequenceEnd { trim: false });
            return (expression, false);
        };
        self.read();
        // A name known only at run time is kept as written, including its spaces.
        if let Expression::Scope { text, range, .. } = &mut expression {
            let before = Range { start: open.range.end, end: range.start };
            let after = Range { start: range.end, end: close.range.start };
            let (before, after) = (self.source(before), self.source(after));
            let keep_before = open.kind == (Kind::Interpolation { trim: false });
            *text = format!("{}{text}{}", if keep_before { before } else { "" }, if trim { "" } else { after });
        }
        (expression, trim)
    }

    // ---- literals

    /// The text of a literal token.
    pub(super) fn unescape(&mut self, token: Token<'a>) -> String {
        let quoted = token.kind == Kind::QuotedLiteral;
        let mut text = String::with_capacity(token.text.len());
        let mut rest = token.text;
        while let Some(first) = rest.chars().next() {
            if rest.starts_with("$${") || rest.starts_with("%%{") {
                text.push(first);
                text.push('{');
                rest = &rest[3..];
                continue;
            }
            if first != '\\' || !quoted {
                text.push(first);
                rest = &rest[first.len_utf8()..];
                continue;
            }
            match escape(rest) {
                Ok((letter, length)) => {
                    text.push(letter);
                    rest = &rest[length..];
                }
                Err((length, detail)) => {
                    let offset = token.text.len() - rest.len();
                    let columns = token.text[..offset].chars().count();
                    let mut range = token.range;
                    range.start.byte += offset;
                    range.start.column += columns;
                    range.end = range.start;
                    range.end.byte += length;
                    range.end.column += rest[..length].chars().count();
                    self.report(range, "Invalid escape sequence", detail);
                    text.push_str(&rest[..length]);
                    rest = &rest[length..];
                }
            }
        }
        text
    }
}

/// Decodes an escape at the start of `rest`. Returns its character and length, or the length of the invalid part and
/// the reason.
fn escape(rest: &str) -> Result<(char, usize), (usize, String)> {
    let selector = rest.chars().nth(1).unwrap_or_default();
    let digits = |count: usize, said: &str, letter: char| {
        let body = &rest[2..];
        let good = body.chars().take(count).take_while(char::is_ascii_hexdigit).count();
        if good < count {
            return Err((
                2 + good,
                format!("The \\{letter} escape sequence must be followed by {said} hexadecimal digits."),
            ));
        }
        let number = u32::from_str_radix(&body[..count], 16).ok();
        Ok((number.and_then(char::from_u32).unwrap_or('\u{FFFD}'), 2 + count))
    };
    match selector {
        'n' => Ok(('\n', 2)),
        'r' => Ok(('\r', 2)),
        't' => Ok(('\t', 2)),
        '"' => Ok(('"', 2)),
        '\\' => Ok(('\\', 2)),
        'u' => digits(4, "four", 'u'),
        'U' => digits(8, "eight", 'U'),
        other => {
            let length = 1 + other.len_utf8();
            Err((
                length.min(rest.len()),
                format!("The symbol {:?} is not a valid escape sequence selector.", other.to_string()),
            ))
        }
    }
}

fn trim_before(trim: bool, parts: &mut [Part]) {
    if let (true, Some(Part::Literal(text, _))) = (trim, parts.last_mut()) {
        text.truncate(text.trim_end().len());
    }
}

/// Removes from each line as many leading spaces as the least indented line has.
fn take_indentation(parts: &mut [Part]) {
    let mut least = usize::MAX;
    let mut at_line_start = true;
    let mut lines = Vec::new();
    for (at, part) in parts.iter().enumerate() {
        if at_line_start {
            at_line_start = false;
            let spaces = match part {
                Part::Literal(text, _) => {
                    let content = text.trim_start();
                    if content.is_empty() && text.ends_with('\n') {
                        usize::MAX
                    } else {
                        lines.push(at);
                        text[..text.len() - content.len()].chars().count()
                    }
                }
                Part::End(_) => break,
                Part::Value(_) | Part::If(..) | Part::For { .. } | Part::Ending(..) => 0,
            };
            least = least.min(spaces);
        }
        if let Part::Literal(text, _) = part
            && text.ends_with('\n')
        {
            at_line_start = true;
        }
    }
    for at in lines {
        if let Some(Part::Literal(text, _)) = parts.get_mut(at) {
            *text = text.chars().skip(least).collect();
        }
    }
}
