//! Syntax tree: bodies of attributes and blocks, and expressions.

use super::Range;
use super::value::Value;

/// Content between braces, or a whole file.
#[derive(Debug, Clone, Default)]
pub(crate) struct Body {
    /// Attributes in the order of the text.
    pub(crate) attributes: Vec<Attribute>,
    pub(crate) blocks: Vec<Block>,
    /// Range at which a missing attribute is reported: the start of the body.
    pub(crate) missing: Option<Range>,
}

impl Body {
    pub(crate) fn attribute(&self, name: &str) -> Option<&Attribute> {
        self.attributes.iter().find(|attribute| attribute.name == name)
    }
}

/// `name = expression`.
#[derive(Debug, Clone)]
pub(crate) struct Attribute {
    pub(crate) name: String,
    pub(crate) expression: Expression,
    pub(crate) range: Range,
    pub(crate) name_range: Range,
}

/// `kind "label" { body }`.
#[derive(Debug, Clone)]
pub(crate) struct Block {
    pub(crate) kind: String,
    pub(crate) labels: Vec<(String, Range)>,
    pub(crate) body: Body,
    pub(crate) kind_range: Range,
    pub(crate) open_brace: Range,
}

impl Block {
    /// The range of kind and labels.
    pub(crate) fn header(&self) -> Range {
        self.labels.last().map_or(self.kind_range, |(_, last)| self.kind_range.to(*last))
    }
}

/// One step of a traversal into a value.
#[derive(Debug, Clone)]
pub(crate) enum Step {
    Attribute(String, Range),
    Index(Value, Range),
}

/// An operator between two operands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operator {
    Or,
    And,
    Equal,
    NotEqual,
    Greater,
    GreaterEqual,
    Less,
    LessEqual,
    Add,
    Subtract,
    Multiply,
    Divide,
    Modulo,
}

/// An expression.
#[derive(Debug, Clone)]
pub(crate) enum Expression {
    Literal(Value, Range),
    Template(Vec<Expression>, Range),
    /// A template that consists of one interpolation: evaluates to the value itself, not to a string.
    TemplateWrap(Box<Expression>, Range),
    /// A `for` directive of a template: the joined results.
    TemplateJoin(Box<Expression>),
    /// A name with steps into its value. `text` is the source, kept for names known only at run time.
    Scope {
        root: String,
        steps: Vec<Step>,
        text: String,
        range: Range,
    },
    /// Steps into the value of any other expression.
    Relative {
        source: Box<Expression>,
        steps: Vec<Step>,
        range: Range,
    },
    Call {
        name: String,
        arguments: Vec<Expression>,
        expand_last: bool,
        name_range: Range,
        open: Range,
        close: Range,
    },
    Conditional {
        condition: Box<Expression>,
        yes: Box<Expression>,
        no: Box<Expression>,
        range: Range,
    },
    Binary {
        left: Box<Expression>,
        operator: Operator,
        right: Box<Expression>,
        range: Range,
    },
    Negate {
        operand: Box<Expression>,
        symbol: Range,
        range: Range,
    },
    Not {
        operand: Box<Expression>,
        symbol: Range,
        range: Range,
    },
    Parentheses(Box<Expression>, Range),
    Tuple {
        items: Vec<Expression>,
        open: Range,
        range: Range,
    },
    Object {
        items: Vec<(Expression, Expression)>,
        open: Range,
        range: Range,
    },
    /// A key of an object: a bare name is a text there.
    Key {
        wrapped: Box<Expression>,
        computed: bool,
    },
    For(Box<ForExpression>),
    Index {
        collection: Box<Expression>,
        key: Box<Expression>,
        open: Range,
        bracket: Range,
        range: Range,
    },
    Splat {
        source: Box<Expression>,
        each: Box<Expression>,
        marker: Range,
        range: Range,
    },
    /// The current element of a splat expression.
    SplatItem(Range),
}

/// `[for k, v in collection : value if condition]`, or the same in braces.
#[derive(Debug, Clone)]
pub(crate) struct ForExpression {
    pub(crate) key_name: Option<String>,
    pub(crate) value_name: String,
    pub(crate) collection: Expression,
    /// Key expression; present for objects.
    pub(crate) key: Option<Expression>,
    pub(crate) value: Expression,
    pub(crate) condition: Option<Expression>,
    /// Whether values of equal keys are grouped in lists (`...`).
    pub(crate) group: bool,
    pub(crate) open: Range,
    pub(crate) range: Range,
}

impl Expression {
    pub(crate) fn range(&self) -> Range {
        match self {
            Expression::Literal(_, range)
            | Expression::Template(_, range)
            | Expression::TemplateWrap(_, range)
            | Expression::Scope { range, .. }
            | Expression::Relative { range, .. }
            | Expression::Conditional { range, .. }
            | Expression::Binary { range, .. }
            | Expression::Negate { range, .. }
            | Expression::Not { range, .. }
            | Expression::Parentheses(_, range)
            | Expression::Tuple { range, .. }
            | Expression::Object { range, .. }
            | Expression::Index { range, .. }
            | Expression::Splat { range, .. }
            | Expression::SplatItem(range) => *range,
            Expression::Call { name_range, close, .. } => name_range.to(*close),
            Expression::TemplateJoin(inner) => inner.range(),
            Expression::Key { wrapped, .. } => wrapped.range(),
            Expression::For(inner) => inner.range,
        }
    }

    /// The range at which a value that does not fit is reported.
    pub(crate) fn start(&self) -> Range {
        match self {
            Expression::Literal(_, range)
            | Expression::TemplateWrap(_, range)
            | Expression::Scope { range, .. }
            | Expression::Relative { range, .. }
            | Expression::Parentheses(_, range)
            | Expression::SplatItem(range) => *range,
            Expression::Template(parts, range) => parts.first().map_or(*range, Expression::start),
            Expression::TemplateJoin(inner) => inner.start(),
            Expression::Call { name_range, open, .. } => name_range.to(*open),
            Expression::Conditional { condition, .. } => condition.start(),
            Expression::Binary { left, .. } => left.start(),
            Expression::Negate { symbol, .. } | Expression::Not { symbol, .. } => *symbol,
            Expression::Tuple { open, .. } | Expression::Object { open, .. } | Expression::Index { open, .. } => *open,
            Expression::Key { wrapped, .. } => wrapped.start(),
            Expression::For(inner) => inner.open,
            Expression::Splat { marker, .. } => *marker,
        }
    }

    /// The bare word, if the expression is one.
    pub(crate) fn keyword(&self) -> Option<&str> {
        match self {
            Expression::Scope { root, steps, .. } if steps.is_empty() => Some(root),
            Expression::Literal(Value::Bool(true), _) => Some("true"),
            Expression::Literal(Value::Bool(false), _) => Some("false"),
            Expression::Literal(Value::Null, _) => Some("null"),
            _ => None,
        }
    }

    /// The text of a template without interpolations and directives.
    pub(crate) fn literal_text(&self) -> Option<&str> {
        match self {
            Expression::Template(parts, _) => match parts.as_slice() {
                [Expression::Literal(Value::Text(text), _)] => Some(text),
                _ => None,
            },
            _ => None,
        }
    }
}
