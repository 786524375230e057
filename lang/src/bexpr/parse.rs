//! Parser from text to [`Expression`]. The grammar uses ordered choice; a failed parse reports every terminal that was
//! tried at the farthest position reached, as the reference's texts do.

mod selector;

use winnow::Parser;
use winnow::combinator::{alt, opt};
use winnow::error::{ContextError, ErrMode};
use winnow::stream::{Stateful, Stream};
use winnow::token::{literal, one_of, take_while};

use super::SyntaxError;
use super::syntax::{Binding, Expression, Matching, Pattern};
use crate::regexp;
use selector::{identifier, selector, value};

/// Deepest nesting of parentheses, `not` and collections.
const NESTING_DEPTH_MAX: usize = 200;

/// Largest number of regular expressions in a filter. A list request keeps all of them while it runs.
const PATTERNS_MAX: usize = 32;

/// Size in bytes above which a compiled regular expression is large.
const LARGE_PATTERN_BYTES: usize = 1 << 20;

/// Largest number of large regular expressions in a filter; further ones are refused as too large. With the bounds of
/// `regexp` the expressions of a filter take at most about 70 MiB.
const LARGE_PATTERNS_MAX: usize = 4;

const SPACE: &str = r"[ \t\r\n]";
const LETTER: &str = "[a-zA-Z]";
const WORD: &str = "[a-zA-Z0-9_/]";
const DIGIT: &str = "[0-9]";
const NONZERO: &str = "[1-9]";
const SEGMENT: &str = r"[\pL\pN-_.~:|]";
/// Label of the end of the text, sorted and printed specially.
const END: &str = "!.";

type Input<'a> = Stateful<&'a str, Progress>;
type Parsed<T> = Result<T, ErrMode<ContextError>>;

/// State of the parse from which the error is built.
#[derive(Debug, Clone, Default)]
struct Progress {
    length: usize,
    depth: usize,
    patterns: usize,
    large_patterns: usize,
    farthest: usize,
    expected: Vec<String>,
    /// An error with its own text: byte offset and message.
    mistake: Option<(usize, String)>,
}

/// Parses a whole filter.
pub(super) fn filter(text: &str) -> Result<Expression, SyntaxError> {
    let mut input = Input { input: text, state: Progress { length: text.len(), ..Progress::default() } };
    match whole(&mut input) {
        Ok(expression) => Ok(expression),
        Err(_) => Err(refusal(text, input.state)),
    }
}

fn refusal(text: &str, progress: Progress) -> SyntaxError {
    let (offset, message) = match progress.mistake {
        Some(mistake) => mistake,
        None => (progress.farthest, format!("no match found, expected: {}", listed(progress.expected))),
    };
    let (line, column) = position(text, offset);
    SyntaxError { line, column, offset, message }
}

fn listed(mut expected: Vec<String>) -> String {
    let end = expected.iter().any(|label| label == END);
    expected.retain(|label| label != END);
    expected.sort();
    expected.dedup();
    if end {
        expected.push("EOF".to_string());
    }
    match expected.split_last() {
        None => String::new(),
        Some((only, [])) => only.clone(),
        Some((last, before)) => format!("{} or {last}", before.join(", ")),
    }
}

/// Line and column of the character at `offset`; a line break counts as column 0 of the line that it begins.
fn position(text: &str, offset: usize) -> (usize, usize) {
    let (mut line, mut column) = (1, 0);
    for (at, letter) in text.char_indices() {
        if at > offset {
            break;
        }
        column += 1;
        if letter == '\n' {
            line += 1;
            column = 0;
        }
    }
    if offset >= text.len() {
        column += 1;
    }
    (line, column)
}

// ---- terminals

fn offset(input: &Input<'_>) -> usize {
    input.state.length - input.input.len()
}

fn fail<T>() -> Parsed<T> {
    Err(ErrMode::Backtrack(ContextError::new()))
}

/// Records that `label` was expected here, and fails.
fn wanted<T>(input: &mut Input<'_>, label: impl Into<String>) -> Parsed<T> {
    let here = offset(input);
    let progress = &mut input.state;
    if here > progress.farthest {
        progress.farthest = here;
        progress.expected.clear();
    }
    if here == progress.farthest {
        progress.expected.push(label.into());
    }
    fail()
}

/// Ends the parse with an error text of its own.
fn mistake<T>(input: &mut Input<'_>, at: usize, rule: &str, message: &str) -> Parsed<T> {
    input.state.mistake = Some((at, format!("rule {rule:?}: {message}")));
    Err(ErrMode::Cut(ContextError::new()))
}

fn token<'a>(text: &'static str) -> impl FnMut(&mut Input<'a>) -> Parsed<&'a str> {
    move |input| {
        let parsed: Parsed<&'a str> = literal(text).parse_next(input);
        match parsed {
            Ok(found) => Ok(found),
            Err(_) => wanted(input, format!("{text:?}")),
        }
    }
}

fn class<'a>(label: &'static str, belongs: fn(char) -> bool) -> impl FnMut(&mut Input<'a>) -> Parsed<char> {
    move |input| {
        let parsed: Parsed<char> = one_of(belongs).parse_next(input);
        match parsed {
            Ok(found) => Ok(found),
            Err(_) => wanted(input, label),
        }
    }
}

/// One or more characters of a class; the first character outside the class is recorded as expected too.
fn many<'a>(label: &'static str, belongs: fn(char) -> bool) -> impl FnMut(&mut Input<'a>) -> Parsed<&'a str> {
    move |input| {
        let taken: Parsed<&'a str> = take_while(0.., belongs).parse_next(input);
        let taken = taken?;
        let more: Parsed<()> = wanted(input, label);
        if taken.is_empty() { more.map(|()| taken) } else { Ok(taken) }
    }
}

fn is_space(letter: char) -> bool {
    matches!(letter, ' ' | '\t' | '\r' | '\n')
}

fn is_word(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || letter == '_' || letter == '/'
}

fn is_segment(letter: char) -> bool {
    letter.is_alphabetic() || letter.is_numeric() || matches!(letter, '-' | '_' | '.' | '~' | ':' | '|')
}

fn space<'a>(input: &mut Input<'a>) -> Parsed<&'a str> {
    many(SPACE, is_space).parse_next(input)
}

fn gap(input: &mut Input<'_>) -> Parsed<()> {
    opt(space).void().parse_next(input)
}

fn end(input: &mut Input<'_>) -> Parsed<()> {
    if input.input.is_empty() { Ok(()) } else { wanted(input, END) }
}

/// Words with white space between and around them: ` is not empty`.
fn phrase<'a>(words: &'static [&'static str], trailing: bool) -> impl FnMut(&mut Input<'a>) -> Parsed<()> {
    move |input| {
        for word in words {
            space(input)?;
            token(word).parse_next(input)?;
        }
        if trailing {
            space(input)?;
        }
        Ok(())
    }
}

// ---- expressions

fn whole(input: &mut Input<'_>) -> Parsed<Expression> {
    gap(input)?;
    let expression = or(input)?;
    gap(input)?;
    end(input)?;
    Ok(expression)
}

fn deeper(input: &mut Input<'_>, parse: fn(&mut Input<'_>) -> Parsed<Expression>) -> Parsed<Expression> {
    input.state.depth += 1;
    if input.state.depth > NESTING_DEPTH_MAX {
        let at = offset(input);
        return mistake(input, at, "grouping", "expression nests too deeply");
    }
    let parsed = parse(input);
    input.state.depth -= 1;
    parsed
}

fn or(input: &mut Input<'_>) -> Parsed<Expression> {
    alt((|i: &mut Input<'_>| chain(i, "or", and, Expression::Any), collection)).parse_next(input)
}

fn and(input: &mut Input<'_>) -> Parsed<Expression> {
    chain(input, "and", not, Expression::All)
}

fn chain(
    input: &mut Input<'_>,
    word: &'static str,
    operand: fn(&mut Input<'_>) -> Parsed<Expression>,
    join: fn(Vec<Expression>) -> Expression,
) -> Parsed<Expression> {
    let first = operand(input)?;
    let mut parts = vec![first];
    loop {
        let before = input.checkpoint();
        let next = (space, token(word), space).parse_next(input).and_then(|_| match word {
            // A collection may follow `or`, but not `and`.
            "or" => alt((operand, collection)).parse_next(input),
            _ => operand(input),
        });
        match next {
            Ok(part) => parts.push(part),
            Err(ErrMode::Backtrack(_)) => {
                input.reset(&before);
                break;
            }
            Err(cut) => return Err(cut),
        }
    }
    Ok(match parts.pop() {
        Some(only) if parts.is_empty() => only,
        last => {
            parts.extend(last);
            join(parts)
        }
    })
}

fn not(input: &mut Input<'_>) -> Parsed<Expression> {
    alt((
        |i: &mut Input<'_>| {
            (token("not"), space).parse_next(i)?;
            Ok(Expression::Not(Box::new(deeper(i, not)?)))
        },
        group,
        matching,
    ))
    .parse_next(input)
}

fn group(input: &mut Input<'_>) -> Parsed<Expression> {
    token("(").parse_next(input)?;
    gap(input)?;
    let inner = deeper(input, or)?;
    gap(input)?;
    let closed: Parsed<&str> = token(")").parse_next(input);
    if closed.is_err() {
        let at = offset(input);
        return mistake(input, at, "grouping", "Unmatched parentheses");
    }
    Ok(inner)
}

fn collection(input: &mut Input<'_>) -> Parsed<Expression> {
    let any = alt((token("any"), token("all"))).parse_next(input)? == "any";
    space(input)?;
    let selector = selector(input)?;
    (space, token("as"), space).parse_next(input)?;
    let binding = binding(input)?;
    gap(input)?;
    token("{").parse_next(input)?;
    gap(input)?;
    let inner = Box::new(deeper(input, or)?);
    gap(input)?;
    token("}").parse_next(input)?;
    Ok(Expression::Each { any, selector, binding, inner })
}

fn binding(input: &mut Input<'_>) -> Parsed<Binding> {
    fn comma(input: &mut Input<'_>) -> Parsed<()> {
        (gap, token(","), gap).void().parse_next(input)
    }
    alt((
        (identifier, comma, identifier).map(|(first, (), second)| Binding::Two(Some(first), Some(second))),
        (identifier, comma, token("_")).map(|(first, (), _)| Binding::Two(Some(first), None)),
        (token("_"), comma, identifier).map(|(_, (), second)| Binding::Two(None, Some(second))),
        identifier.map(Binding::One),
    ))
    .parse_next(input)
}

fn matching(input: &mut Input<'_>) -> Parsed<Expression> {
    alt((selector_operator_value, selector_is_empty, value_in_selector)).parse_next(input)
}

fn selector_operator_value(input: &mut Input<'_>) -> Parsed<Expression> {
    let selector = selector(input)?;
    #[derive(Clone, Copy)]
    enum Operator {
        Equal,
        Contains,
        Matches,
    }
    let (operator, negated) = alt((
        (gap, token("=="), gap).map(|_| (Operator::Equal, false)),
        (gap, token("!="), gap).map(|_| (Operator::Equal, true)),
        phrase(&["contains"], true).map(|()| (Operator::Contains, false)),
        phrase(&["not", "contains"], true).map(|()| (Operator::Contains, true)),
        phrase(&["matches"], true).map(|()| (Operator::Matches, false)),
        phrase(&["not", "matches"], true).map(|()| (Operator::Matches, true)),
    ))
    .parse_next(input)?;
    let literal = value(input)?;
    let matching = match operator {
        Operator::Equal => Matching::Equal(literal),
        Operator::Contains => Matching::In(literal),
        Operator::Matches => {
            input.state.patterns += 1;
            if input.state.patterns > PATTERNS_MAX {
                let at = offset(input);
                return mistake(input, at, "match", "too many regular expressions in one filter");
            }
            let compiled = match regexp::compile_within(&literal, LARGE_PATTERN_BYTES) {
                Err(error) if error.is_too_large() && input.state.large_patterns < LARGE_PATTERNS_MAX => {
                    input.state.large_patterns += 1;
                    regexp::compile(&literal)
                }
                compiled => compiled,
            };
            Matching::Regexp(Pattern { text: literal, compiled: compiled.map_err(|error| error.to_string()) })
        }
    };
    Ok(Expression::Match { selector, matching, negated })
}

fn selector_is_empty(input: &mut Input<'_>) -> Parsed<Expression> {
    let selector = selector(input)?;
    let negated =
        alt((phrase(&["is", "empty"], false).value(false), phrase(&["is", "not", "empty"], false).value(true)))
            .parse_next(input)?;
    Ok(Expression::Match { selector, matching: Matching::Empty, negated })
}

fn value_in_selector(input: &mut Input<'_>) -> Parsed<Expression> {
    let literal = value(input)?;
    let negated =
        alt((phrase(&["in"], true).value(false), phrase(&["not", "in"], true).value(true))).parse_next(input)?;
    let at = offset(input);
    match selector(input) {
        Ok(selector) => Ok(Expression::Match { selector, matching: Matching::In(literal), negated }),
        Err(ErrMode::Backtrack(_)) => mistake(input, at, "match", "Invalid selector"),
        Err(cut) => Err(cut),
    }
}
