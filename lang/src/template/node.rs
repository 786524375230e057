//! The tree of a template, and its nodes as text in error messages.

use std::fmt;

/// Offset in the template's text, in bytes.
pub(super) type Pos = usize;

/// A part of the output, or of its control.
#[derive(Debug, Clone)]
pub(super) enum Node {
    Text(String),
    Action { pipe: Pipe },
    Break,
    Continue,
    If { pipe: Pipe, list: Vec<Node>, otherwise: Vec<Node> },
    With { pipe: Pipe, list: Vec<Node>, otherwise: Vec<Node> },
    Range { pipe: Pipe, list: Vec<Node>, otherwise: Vec<Node> },
    Template { pos: Pos, name: String, pipe: Option<Pipe> },
}

/// Commands of which each gets the result of the one before.
#[derive(Debug, Clone)]
pub(super) struct Pipe {
    pub pos: Pos,
    pub is_assign: bool,
    /// Variables that are declared or assigned, with `$`.
    pub decl: Vec<String>,
    pub commands: Vec<Command>,
}

/// An operand with its arguments.
#[derive(Debug, Clone)]
pub(super) struct Command {
    pub pos: Pos,
    pub args: Vec<Operand>,
}

/// A value in a command.
#[derive(Debug, Clone)]
pub(super) struct Operand {
    pub pos: Pos,
    pub kind: Kind,
}

#[derive(Debug, Clone)]
pub(super) enum Kind {
    Bool(bool),
    Dot,
    Nil,
    Number(Number),
    /// A text with its spelling.
    Text {
        spelled: String,
        text: String,
    },
    Identifier(String),
    /// `.a.b`.
    Field(Vec<String>),
    /// `$x.a.b`: the variable with `$`, and the fields.
    Variable(Vec<String>),
    /// `(pipe).a.b`.
    Chain(Box<Operand>, Vec<String>),
    Pipe(Box<Pipe>),
}

/// A number as each of the types that can hold it.
#[derive(Debug, Clone)]
pub(super) struct Number {
    pub spelled: String,
    /// Whether the spelling is that of a character.
    pub is_char: bool,
    pub int: Option<i64>,
    pub uint: Option<u64>,
    pub float: Option<f64>,
}

impl fmt::Display for Pipe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.decl.is_empty() {
            write!(f, "{} {} ", self.decl.join(", "), if self.is_assign { "=" } else { ":=" })?;
        }
        for (at, command) in self.commands.iter().enumerate() {
            if at > 0 {
                f.write_str(" | ")?;
            }
            write!(f, "{command}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, arg) in self.args.iter().enumerate() {
            if at > 0 {
                f.write_str(" ")?;
            }
            write!(f, "{arg}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Operand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            Kind::Bool(truth) => write!(f, "{truth}"),
            Kind::Dot => f.write_str("."),
            Kind::Nil => f.write_str("nil"),
            Kind::Number(number) => f.write_str(&number.spelled),
            Kind::Text { spelled, .. } => f.write_str(spelled),
            Kind::Identifier(name) => f.write_str(name),
            Kind::Field(names) => names.iter().try_for_each(|name| write!(f, ".{name}")),
            Kind::Variable(names) => f.write_str(&names.join(".")),
            Kind::Chain(of, names) => {
                write!(f, "{of}")?;
                names.iter().try_for_each(|name| write!(f, ".{name}"))
            }
            Kind::Pipe(pipe) => write!(f, "({pipe})"),
        }
    }
}
