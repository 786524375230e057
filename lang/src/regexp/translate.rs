//! Go's syntax of regular expressions, rewritten in the syntax of the `regex` crate in one pass. Not here: characters
//! (`escape`) and classes (`class`).

use std::collections::BTreeSet;
use std::ops::Range;

use super::source::Source;
use super::{Error, Mistake, class, escape};

/// Deepest nesting of groups and repetitions. The `regex` crate compiles recursively, on the stack of the caller: this
/// depth takes 1.4 MiB without optimization. The limit of its parser, 250 levels, is not reached.
const DEPTH_MAX: u32 = 200;

/// Levels of one group: itself, its alternatives, and the sequences in them.
const GROUP_DEPTH: u32 = 3;

/// Largest count of a repetition, and largest product of counts of nested repetitions.
const COUNT_MAX: u32 = 1000;

/// Escape sequences that match a place, in both syntaxes. Words consist of ASCII characters.
const ASSERTIONS: [(&str, &str); 4] = [(r"\A", r"\A"), (r"\z", r"\z"), (r"\b", r"(?-u:\b)"), (r"\B", r"(?-u:\B)")];

/// Rewrites an expression.
pub fn translate(expression: &str) -> Result<String, Error> {
    let translation = Translation {
        source: Source::new(expression),
        out: String::with_capacity(expression.len() + expression.len() / 2),
        group: Group::default(),
        open: Vec::new(),
        names: BTreeSet::new(),
        written_flags: Flags::default(),
        last_repetition: 0..0,
    };
    translation.run()
}

/// The state of the one pass.
struct Translation<'a> {
    source: Source<'a>,
    out: String,
    /// The innermost group, and the ones around it.
    group: Group,
    open: Vec<Group>,
    names: BTreeSet<&'a str>,
    /// Flags in force at the end of `out`. They follow `group.flags` when the next operand is written: a repetition
    /// after `(?i)` applies to the operand before it.
    written_flags: Flags,
    /// Place in the source of the last repetition operator.
    last_repetition: Range<usize>,
}

/// An open group; the whole expression is one too.
#[derive(Default)]
struct Group {
    flags: Flags,
    /// `Translation::written_flags` outside of the group.
    outer_written_flags: Flags,
    /// Operand of a repetition operator that comes next.
    operand: Option<Operand>,
    /// The largest of each measure among the operands before that one.
    count: u32,
    depth: u32,
}

/// The last element of a sequence.
struct Operand {
    /// Start of its text in `out`. The text ends at the end of `out`.
    start: usize,
    /// Whether it ends with a repetition operator.
    repeated: bool,
    /// Largest product of counts of nested repetitions, at least 1.
    count: u32,
    /// Levels of groups and repetitions in it.
    depth: u32,
}

/// Flags, as bits in the order of `LETTERS`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Flags(u8);

impl Flags {
    const LETTERS: &'static str = "imsU";

    fn bit(letter: char) -> Option<u8> {
        Self::LETTERS.find(letter).map(|place| 1 << place)
    }

    /// Whether `*` prefers fewer, and `*?` more.
    fn ungreedy(self) -> bool {
        Self::bit('U').is_some_and(|bit| self.0 & bit != 0)
    }

    /// Letters of the flags that are set here and not in `other`.
    fn without(self, other: Self) -> String {
        let set = self.0 & !other.0;
        Self::LETTERS.char_indices().filter(|(place, _)| set & (1 << place) != 0).map(|(_, letter)| letter).collect()
    }
}

/// Bounds of `{n}`, `{n,}` or `{n,m}`.
struct Counts {
    least: u32,
    /// `None`: without bound.
    most: Option<u32>,
}

impl<'a> Translation<'a> {
    fn run(mut self) -> Result<String, Error> {
        while let Some(letter) = self.source.peek() {
            let from = self.source.at();
            match letter {
                '(' => self.open_group()?,
                ')' => self.close_group()?,
                '|' => {
                    self.source.next();
                    self.settle();
                    self.out.push('|');
                }
                '*' | '+' | '?' => {
                    self.source.next();
                    self.repeat(from, 1)?;
                }
                '{' => match self.counts() {
                    Some(counts) => self.repeat_counted(from, &counts)?,
                    None => self.literal(),
                },
                '.' | '^' | '$' => {
                    self.source.next();
                    self.operand(self.source.since(from));
                }
                '[' => {
                    let class = class::bracketed(&mut self.source)?;
                    self.operand(&class);
                }
                '\\' => self.escaped()?,
                _ => self.literal(),
            }
        }
        if self.open.is_empty() { Ok(self.out) } else { Err(self.error(Mistake::MissingParen)) }
    }

    /// An error about the whole expression.
    fn error(&self, mistake: Mistake) -> Error {
        Error::new(mistake, self.source.text())
    }

    /// Ends the last operand of a sequence.
    fn settle(&mut self) {
        if let Some(operand) = self.group.operand.take() {
            self.group.count = self.group.count.max(operand.count);
            self.group.depth = self.group.depth.max(operand.depth);
        }
    }

    /// Begins an operand at the end of `out`, with the flags that hold for it.
    fn begin(&mut self) {
        self.settle();
        let (wanted, written) = (self.group.flags, self.written_flags);
        if wanted != written {
            let (on, off) = (wanted.without(written), written.without(wanted));
            let minus = if off.is_empty() { "" } else { "-" };
            self.out.push_str(&format!("(?{on}{minus}{off})"));
            self.written_flags = wanted;
        }
        self.group.operand = Some(Operand { start: self.out.len(), repeated: false, count: 1, depth: 0 });
    }

    fn operand(&mut self, text: &str) {
        self.begin();
        self.out.push_str(text);
    }

    /// One character that stands for itself.
    fn literal(&mut self) {
        if let Some(letter) = self.source.next() {
            self.character(letter);
        }
    }

    fn character(&mut self, letter: char) {
        self.begin();
        escape::write(&mut self.out, letter);
    }

    /// An escape sequence: a place, quoted text, a class or a character.
    fn escaped(&mut self) -> Result<(), Error> {
        for (assertion, written) in ASSERTIONS {
            if self.source.eat(assertion) {
                self.operand(written);
                return Ok(());
            }
        }
        if self.source.eat(r"\Q") {
            while !self.source.rest().is_empty() && !self.source.eat(r"\E") {
                self.literal();
            }
            return Ok(());
        }
        if let Some(items) = class::escaped(&mut self.source)? {
            self.operand(&class::with_brackets(&items, false));
            return Ok(());
        }
        match char::from_u32(escape::read(&mut self.source)?) {
            Some(letter) => self.character(letter),
            // A surrogate: no text has it.
            None => self.operand(&class::with_brackets("", false)),
        }
        Ok(())
    }

    /// Reads `(` and, if it begins a group with a name or flags, what belongs to it.
    fn open_group(&mut self) -> Result<(), Error> {
        let from = self.source.at();
        let rest = self.source.rest();
        // Like Go, an unfinished `(?P<` is taken for flags.
        if rest.starts_with("(?<") || (rest.starts_with("(?P<") && rest != "(?P<") {
            return self.open_named(from);
        }
        if self.source.eat("(?") {
            return self.read_flags(from);
        }
        self.source.next();
        self.begin_group("(", self.group.flags);
        Ok(())
    }

    /// Reads `(?P<name>` or `(?<name>`.
    fn open_named(&mut self, from: usize) -> Result<(), Error> {
        // `(?<name>` came to Go after the version that built the reference. Look-behind and mistakes in the name have
        // the error text of that version.
        let short = self.source.eat("(?<");
        let invalid = |source: &Source<'_>| {
            if short {
                Error::new(Mistake::PerlSyntax, "(?<")
            } else {
                Error::new(Mistake::NamedCapture, source.since(from))
            }
        };
        self.source.eat("(?P<");
        let Some(name) = self.source.through(">").and_then(|name| name.strip_suffix('>')) else {
            self.source.finish();
            return Err(invalid(&self.source));
        };
        if name.is_empty() || !name.chars().all(|letter| letter == '_' || letter.is_ascii_alphanumeric()) {
            return Err(invalid(&self.source));
        }
        // The `regex` crate refuses a name that begins with a digit, and a name twice: such a group has a number only.
        let usable = !name.starts_with(|letter: char| letter.is_ascii_digit());
        if usable && self.names.insert(name) {
            self.begin_group(&format!("(?P<{name}>"), self.group.flags);
        } else {
            self.begin_group("(", self.group.flags);
        }
        Ok(())
    }

    /// Reads flags after `(?`, to the `)` or `:` that ends them.
    fn read_flags(&mut self, from: usize) -> Result<(), Error> {
        let mut flags = self.group.flags;
        let (mut clear, mut any) = (false, false);
        loop {
            match self.source.next() {
                Some(end @ (')' | ':')) if any || !clear => {
                    if end == ':' {
                        self.begin_group("(?:", flags);
                    } else {
                        self.group.flags = flags;
                    }
                    return Ok(());
                }
                Some('-') if !clear => (clear, any) = (true, false),
                letter => {
                    let Some(bit) = letter.and_then(Flags::bit) else {
                        return Err(Error::new(Mistake::PerlSyntax, self.source.since(from)));
                    };
                    flags.0 = if clear { flags.0 & !bit } else { flags.0 | bit };
                    any = true;
                }
            }
        }
    }

    /// Begins a group, which is an operand of the group around it.
    fn begin_group(&mut self, opening: &str, flags: Flags) {
        self.begin();
        self.out.push_str(opening);
        let inner = Group { flags, outer_written_flags: self.written_flags, operand: None, count: 1, depth: 0 };
        self.open.push(std::mem::replace(&mut self.group, inner));
    }

    fn close_group(&mut self) -> Result<(), Error> {
        self.source.next();
        self.settle();
        let Some(outer) = self.open.pop() else { return Err(self.error(Mistake::UnexpectedParen)) };
        let inner = std::mem::replace(&mut self.group, outer);
        self.out.push(')');
        self.written_flags = inner.outer_written_flags;
        if let Some(group) = &mut self.group.operand {
            group.count = inner.count;
            group.depth = inner.depth + GROUP_DEPTH;
        }
        self.check_depth()
    }

    fn check_depth(&self) -> Result<(), Error> {
        let deep = self.group.operand.as_ref().is_some_and(|operand| operand.depth > DEPTH_MAX);
        if deep { Err(self.error(Mistake::NestingDepth)) } else { Ok(()) }
    }

    /// Reads `{n}`, `{n,}` or `{n,m}`. `None`, and nothing is read, if the brace is an ordinary character.
    fn counts(&mut self) -> Option<Counts> {
        let mut ahead = self.source;
        ahead.next();
        let least = number(&mut ahead)?;
        let most = if !ahead.eat(",") {
            Some(least)
        } else if ahead.peek() == Some('}') {
            None
        } else {
            Some(number(&mut ahead)?)
        };
        ahead.eat("}").then(|| {
            self.source = ahead;
            Counts { least, most }
        })
    }

    fn repeat_counted(&mut self, from: usize, counts: &Counts) -> Result<(), Error> {
        let most = counts.most.unwrap_or(counts.least);
        if counts.least > COUNT_MAX || most > COUNT_MAX || most < counts.least {
            return Err(Error::new(Mistake::RepeatSize, self.source.since(from)));
        }
        self.repeat(from, most)
    }

    /// Applies the repetition operator that was just read, up to its `?`. `factor` multiplies the counts inside.
    fn repeat(&mut self, from: usize, factor: u32) -> Result<(), Error> {
        self.source.eat("?");
        let operator = self.source.since(from);
        let last = std::mem::replace(&mut self.last_repetition, from..self.source.at());
        let Some(operand) = &mut self.group.operand else {
            return Err(Error::new(Mistake::MissingRepeatArgument, operator));
        };
        if last.end == from {
            return Err(Error::new(Mistake::RepeatOp, self.source.since(last.start)));
        }
        // Go skips what a `{0}` repeats.
        operand.count = if operator.starts_with("{0}") || operator.starts_with("{0,0}") {
            1
        } else {
            operand.count * factor.max(1)
        };
        if operand.count > COUNT_MAX {
            return Err(Error::new(Mistake::RepeatSize, operator));
        }
        // Only `(?i)` or `\Q\E` stood between the operators. Without a group, a second `?` would say "prefer fewer".
        if operand.repeated {
            self.out.insert_str(operand.start, "(?:");
            self.out.push(')');
            operand.depth += 1;
        }
        operand.repeated = true;
        operand.depth += 1;
        let (bare, mut fewer) = match operator.strip_suffix('?') {
            Some(bare) if !bare.is_empty() => (bare, true),
            _ => (operator, false),
        };
        // In `a(?U)*` the flag holds for the operator already.
        fewer ^= self.group.flags.ungreedy() != self.written_flags.ungreedy();
        self.out.push_str(bare);
        if fewer {
            self.out.push('?');
        }
        self.check_depth()
    }
}

/// Reads a number without leading zeros. Numbers that are too large for the type are as good as the largest one.
fn number(source: &mut Source<'_>) -> Option<u32> {
    let from = source.at();
    while source.peek().is_some_and(|digit| digit.is_ascii_digit()) {
        source.next();
    }
    let digits = source.since(from);
    if digits.is_empty() || (digits.len() > 1 && digits.starts_with('0')) {
        return None;
    }
    Some(digits.parse().unwrap_or(u32::MAX))
}
