//! The canonical layout of a text in HCL 2: two spaces of indentation for each bracket that is open, one space between
//! tokens, `=` and trailing comments of neighbouring lines in one column. Texts, comments and line breaks stay. The
//! layout is that of the reference's `fmt`, which works on tokens too.

use super::lex::{Kind, Token, tokens};

/// Formats a text whose syntax is right.
pub(crate) fn format(source: &str) -> String {
    let mut lines = lines(source, &tokens(source));
    indent(&mut lines);
    let mut rows: Vec<Row> = lines.iter().map(Row::of).collect();
    align(&mut rows, |row| row.assign.is_some());
    rows.iter_mut().for_each(Row::close_assign);
    align(&mut rows, |row| row.comment.is_some());
    let text: Vec<String> = rows.into_iter().map(Row::whole).collect();
    text.join("\n")
}

/// A token, or several that are one for the layout: a quoted text, a heredoc.
struct Piece {
    kind: Kind,
    text: String,
}

struct Line {
    pieces: Vec<Piece>,
    indent: usize,
}

/// The pieces of each line.
fn lines(source: &str, tokens: &[Token<'_>]) -> Vec<Line> {
    let mut lines = vec![Line { pieces: Vec::new(), indent: 0 }];
    let mut at = 0;
    while let Some(token) = tokens.get(at) {
        match token.kind {
            Kind::End => break,
            Kind::Newline => lines.push(Line { pieces: Vec::new(), indent: 0 }),
            _ => {
                let (mut piece, last) = piece(source, tokens, at);
                at = last;
                // The token of a comment has the end of its line.
                let ends_line = piece.kind == Kind::Comment && piece.text.ends_with('\n');
                piece.text.truncate(piece.text.trim_end().len());
                if let Some(line) = lines.last_mut() {
                    line.pieces.push(piece);
                }
                if ends_line {
                    lines.push(Line { pieces: Vec::new(), indent: 0 });
                }
            }
        }
        at += 1;
    }
    lines
}

/// The piece that begins at a token, and the index of its last token.
fn piece(source: &str, tokens: &[Token<'_>], at: usize) -> (Piece, usize) {
    let token = &tokens[at];
    let (closes, nested) = match token.kind {
        Kind::OpenQuote => (Kind::CloseQuote, true),
        Kind::OpenHeredoc { .. } => (Kind::CloseHeredoc, false),
        kind => return (Piece { kind, text: token.text.to_owned() }, at),
    };
    let last = closing(tokens, at, closes);
    let text = if nested {
        quoted(source, &tokens[at..=last])
    } else {
        let end = tokens[last].range.end.byte;
        source[token.range.start.byte..end].trim_end_matches(['\r', '\n']).to_owned()
    };
    (Piece { kind: token.kind, text }, last)
}

/// Index of the token that closes the template which begins at a token.
fn closing(tokens: &[Token<'_>], at: usize, closes: Kind) -> usize {
    let mut open = vec![closes];
    for (index, token) in tokens.iter().enumerate().skip(at + 1) {
        match token.kind {
            Kind::OpenQuote => open.push(Kind::CloseQuote),
            Kind::OpenHeredoc { .. } => open.push(Kind::CloseHeredoc),
            kind if open.last() == Some(&kind) => {
                open.pop();
                if open.is_empty() {
                    return index;
                }
            }
            _ => {}
        }
    }
    tokens.len() - 1
}

/// A quoted text, with the expressions in it formatted.
fn quoted(source: &str, tokens: &[Token<'_>]) -> String {
    let mut out = String::new();
    let mut at = 0;
    while let Some(token) = tokens.get(at) {
        out.push_str(token.text);
        if matches!(token.kind, Kind::Interpolation { .. }) {
            let end = sequence_end(tokens, at);
            let inner = &tokens[at + 1..end];
            let is_simple = inner.iter().all(|token| !matches!(token.kind, Kind::Newline | Kind::Comment));
            match (is_simple, inner.first(), inner.last()) {
                (true, _, _) => out.push_str(&joined(&pieces(source, inner))),
                (false, Some(first), Some(last)) => {
                    out.push_str(&source[first.range.start.byte..last.range.end.byte]);
                }
                (false, _, _) => {}
            }
            at = end;
            continue;
        }
        if matches!(token.kind, Kind::Control { .. }) {
            let end = sequence_end(tokens, at);
            out.push_str(&source[token.range.end.byte..tokens[end].range.start.byte]);
            at = end;
            continue;
        }
        at += 1;
    }
    out
}

/// Index of the end of a template sequence.
fn sequence_end(tokens: &[Token<'_>], at: usize) -> usize {
    let mut open = 0;
    for (index, token) in tokens.iter().enumerate().skip(at) {
        match token.kind {
            Kind::Interpolation { .. } | Kind::Control { .. } => open += 1,
            Kind::SequenceEnd { .. } => {
                open -= 1;
                if open == 0 {
                    return index;
                }
            }
            _ => {}
        }
    }
    tokens.len() - 1
}

fn pieces(source: &str, tokens: &[Token<'_>]) -> Vec<Piece> {
    let mut out = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        let (piece, last) = piece(source, tokens, at);
        out.push(piece);
        at = last + 1;
    }
    out
}

fn change(piece: &Piece) -> i32 {
    match piece.kind {
        Kind::OpenBrace | Kind::OpenBracket | Kind::OpenParen => 1,
        Kind::CloseBrace | Kind::CloseBracket | Kind::CloseParen => -1,
        _ => 0,
    }
}

fn net(pieces: &[Piece]) -> i32 {
    pieces.iter().map(change).sum()
}

/// Indents each line by the lines before it that leave brackets open: a line counts once, however many it opens.
fn indent(lines: &mut [Line]) {
    let mut open: Vec<i32> = Vec::new();
    for line in lines {
        let net = net(&line.pieces);
        let mut closed = -net;
        while closed > 0 {
            match open.last_mut() {
                Some(last) if *last > closed => {
                    *last -= closed;
                    closed = 0;
                }
                Some(last) => {
                    closed -= *last;
                    open.pop();
                }
                None => closed = 0,
            }
        }
        line.indent = open.len();
        if net > 0 {
            open.push(net);
        }
    }
}

/// The parts of a line that are aligned with those of its neighbours.
struct Row {
    /// Text before `=`, or the whole line; with its indentation.
    lead: String,
    assign: Option<String>,
    comment: Option<String>,
    /// The line ends with a heredoc, whose lines separate it from the next one.
    ends_chain: bool,
}

impl Row {
    fn of(line: &Line) -> Self {
        let mut pieces = line.pieces.as_slice();
        let mut comment = None;
        if let [before @ .., last] = pieces
            && last.kind == Kind::Comment
            && !before.is_empty()
        {
            comment = Some(last.text.trim_end().to_owned());
            pieces = before;
        }
        let equal = pieces.iter().position(|piece| piece.kind == Kind::Equal).filter(|at| *at > 0);
        // A value that goes on in the next lines is not aligned.
        let equal = equal.filter(|at| net(&pieces[*at..]) == 0);
        let (lead, assign) = match equal {
            Some(at) => (&pieces[..at], Some(joined(&pieces[at..]))),
            None => (pieces, None),
        };
        let lead = joined(lead);
        let lead = if lead.is_empty() { lead } else { format!("{}{lead}", "  ".repeat(line.indent)) };
        let ends_chain = matches!(line.pieces.last(), Some(last) if matches!(last.kind, Kind::OpenHeredoc { .. }));
        Self { lead, assign, comment, ends_chain }
    }

    /// Joins the texts before and after `=`.
    fn close_assign(&mut self) {
        if let Some(assign) = self.assign.take() {
            self.lead = format!("{} {assign}", self.lead);
        }
    }

    fn whole(self) -> String {
        let whole = match self.comment {
            Some(comment) => format!("{} {comment}", self.lead),
            None => self.lead,
        };
        whole.trim_end_matches([' ', '\t']).to_owned()
    }
}

/// Pads the first parts of rows to the same width in each chain: rows after each other that all have the part to align.
fn align(rows: &mut [Row], has_part: impl Fn(&Row) -> bool) {
    let mut at = 0;
    while at < rows.len() {
        let mut end = at;
        while end < rows.len() && has_part(&rows[end]) && (end == at || !rows[end - 1].ends_chain) {
            end += 1;
        }
        let width = |row: &Row| row.lead.chars().count();
        let widest = rows[at..end].iter().map(width).max().unwrap_or(0);
        for row in &mut rows[at..end] {
            let missing = widest - width(row);
            row.lead.push_str(&" ".repeat(missing));
        }
        at = end.max(at + 1);
    }
}

fn joined(pieces: &[Piece]) -> String {
    let mut out = String::new();
    for (at, piece) in pieces.iter().enumerate() {
        if at > 0 && spaced(at.checked_sub(2).map(|before| &pieces[before]), &pieces[at - 1], piece) {
            out.push(' ');
        }
        out.push_str(&piece.text);
    }
    out
}

/// Whether a space is between two pieces; `before` is the piece before both.
fn spaced(before: Option<&Piece>, left: &Piece, right: &Piece) -> bool {
    let ends_operand = |piece: &Piece| {
        matches!(
            piece.kind,
            Kind::Identifier
                | Kind::Number
                | Kind::OpenQuote
                | Kind::CloseBrace
                | Kind::CloseBracket
                | Kind::CloseParen
        )
    };
    match (left.kind, right.kind) {
        // Calls and indexes.
        (Kind::Identifier, Kind::OpenParen) => false,
        (_, Kind::OpenBracket) if ends_operand(left) => false,
        (Kind::Dot, _) | (_, Kind::Dot) => false,
        (_, Kind::Comma | Kind::Ellipsis) => false,
        (Kind::OpenBracket | Kind::OpenParen, _) | (_, Kind::CloseBracket | Kind::CloseParen) => false,
        (Kind::OpenBrace, Kind::CloseBrace) => false,
        (Kind::Bang, _) => false,
        // A sign, not a difference.
        (Kind::Minus, _) => before.is_some_and(ends_operand),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    fn check(source: &str, expected: Expect) {
        let formatted = format(source);
        expected.assert_eq(&formatted);
        assert_eq!(format(&formatted), formatted, "a formatted text stays as it is");
    }

    #[test]
    fn lines_are_indented_and_equal_signs_aligned() {
        check(
            "job \"x\" {\ntype=\"batch\"\n  group   \"g\" {\ncount=1\nlong_name   = 2 # why\n\nx=1   // c\n  task \"t\" { driver=\"mock_driver\" }\n}\n}\n",
            expect![[r#"
                job "x" {
                  type = "batch"
                  group "g" {
                    count     = 1
                    long_name = 2 # why

                    x = 1 // c
                    task "t" { driver = "mock_driver" }
                  }
                }
            "#]],
        );
    }

    #[test]
    fn values_of_several_lines_are_not_aligned_and_count_once() {
        check(
            "a={\nbb   =  1\nc=\"${ x.y [ 0 ] }\"\n}\nlong=f( [ {\nx=-1\n} ] )\nd = !e&&-1-2==f.g[ 1 ]\nempty={ }\nl=[1,2 ,3]\n",
            expect![[r#"
                a = {
                  bb = 1
                  c  = "${x.y[0]}"
                }
                long = f([{
                  x = -1
                }])
                d     = !e && -1 - 2 == f.g[1]
                empty = {}
                l     = [1, 2, 3]
            "#]],
        );
    }

    #[test]
    fn heredocs_comments_and_empty_lines_stay() {
        check(
            "# first\n\n\nx {\n   data = <<EOF\n  keep   this\n${ a }\nEOF\nchange_mode=\"noop\"\n/* a\n  b */\n}\n",
            expect![[r##"
                # first


                x {
                  data = <<EOF
                  keep   this
                ${ a }
                EOF
                  change_mode = "noop"
                  /* a
                  b */
                }
            "##]],
        );
    }
}
