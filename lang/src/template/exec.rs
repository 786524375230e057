//! Rendering: walks the tree, evaluates pipelines, writes the output.

mod call;
mod field;

use std::fmt;

use super::bounds::Bounds;
use super::node::{Command, Kind, Node, Number, Operand, Pipe, Pos};
use super::value::{Map, Value};
use super::{Library, Template, format, literal};

/// Deepest nesting of lists, pipelines and calls of templates together. One level takes about 5 KiB of stack in a debug
/// build.
const DEPTH_MAX: usize = 150;

/// Renders a template.
pub(super) fn render(template: &Template, dot: Value, library: &dyn Library, bounds: Bounds) -> Result<String, String> {
    let mut run = Run { template, library, bounds, depth: 0 };
    let mut state = State::new(&template.name, &dot);
    let nodes = template.bodies.get(&template.name).map(Vec::as_slice).unwrap_or_default();
    run.list(&mut state, &dot, nodes)?;
    Ok(state.output)
}

/// One rendering.
struct Run<'t> {
    template: &'t Template,
    library: &'t dyn Library,
    bounds: Bounds,
    depth: usize,
}

/// Rendering of one template of the set.
struct State<'t> {
    /// Name of the template, for messages.
    name: &'t str,
    vars: Vec<(&'t str, Value)>,
    output: String,
    /// The node that was looked at last. Errors are reported there, as in Go, also where an outer node caused them.
    at: At<'t>,
}

impl<'t> State<'t> {
    fn new(name: &'t str, dot: &Value) -> Self {
        Self { name, vars: vec![("$", dot.clone())], output: String::new(), at: At::Start }
    }
}

/// A node that errors are reported at.
#[derive(Clone, Copy)]
enum At<'t> {
    Start,
    Pipe(&'t Pipe),
    Command(&'t Command),
    Operand(&'t Operand),
    Call { pos: Pos, name: &'t str, pipe: Option<&'t Pipe> },
}

impl At<'_> {
    fn pos(self) -> Pos {
        match self {
            Self::Start => 0,
            Self::Pipe(pipe) => pipe.pos,
            Self::Command(command) => command.pos,
            Self::Operand(operand) => operand.pos,
            Self::Call { pos, .. } => pos,
        }
    }
}

impl fmt::Display for At<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Start => Ok(()),
            Self::Pipe(pipe) => write!(f, "{pipe}"),
            Self::Command(command) => write!(f, "{command}"),
            Self::Operand(operand) => write!(f, "{operand}"),
            Self::Call { name, pipe: Some(pipe), .. } => write!(f, "{{{{template {} {pipe}}}}}", literal::quoted(name)),
            Self::Call { name, pipe: None, .. } => write!(f, "{{{{template {}}}}}", literal::quoted(name)),
        }
    }
}

/// How a list of nodes ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Flow {
    Normal,
    Break,
    Continue,
}

type Done<T> = Result<T, String>;

impl State<'_> {
    /// An error at the node that was looked at last.
    fn fail<T>(&self, template: &Template, message: &str) -> Done<T> {
        let before = &template.text[..self.at.pos().min(template.text.len())];
        let line = 1 + before.matches('\n').count();
        let column = before.len() - before.rfind('\n').map_or(0, |newline| newline + 1);
        let (of, name) = (&template.name, literal::quoted(self.name));
        Err(format!("template: {of}:{line}:{column}: executing {name} at <{}>: {message}", self.at))
    }
}

impl<'t> Run<'t> {
    fn fail<T>(&self, state: &State<'t>, message: &str) -> Done<T> {
        state.fail(self.template, message)
    }

    fn checked<T>(&self, state: &State<'t>, outcome: Result<T, String>) -> Done<T> {
        outcome.or_else(|message| self.fail(state, &message))
    }

    fn list(&mut self, state: &mut State<'t>, dot: &Value, nodes: &'t [Node]) -> Done<Flow> {
        self.depth += 1;
        let mut flow = Flow::Normal;
        for node in nodes {
            flow = self.node(state, dot, node)?;
            if flow != Flow::Normal {
                break;
            }
        }
        self.depth -= 1;
        Ok(flow)
    }

    fn node(&mut self, state: &mut State<'t>, dot: &Value, node: &'t Node) -> Done<Flow> {
        match node {
            Node::Text(text) => self.write(state, text)?,
            Node::Action { pipe } => {
                let value = self.pipe(state, dot, pipe)?;
                if pipe.decl.is_empty() {
                    self.write(state, &format::printed(&value))?;
                }
            }
            Node::Break => return Ok(Flow::Break),
            Node::Continue => return Ok(Flow::Continue),
            Node::If { pipe, list, otherwise } => return self.choose(state, dot, pipe, (list, otherwise), false),
            Node::With { pipe, list, otherwise } => return self.choose(state, dot, pipe, (list, otherwise), true),
            Node::Range { pipe, list, otherwise } => return self.range(state, dot, pipe, (list, otherwise)),
            Node::Template { pos, name, pipe } => {
                state.at = At::Call { pos: *pos, name, pipe: pipe.as_ref() };
                self.template(state, dot, name, pipe.as_ref())?;
            }
        }
        Ok(Flow::Normal)
    }

    fn write(&mut self, state: &mut State<'t>, text: &str) -> Done<()> {
        let counted = self.bounds.make(text.len()).and_then(|()| self.bounds.step());
        self.checked(state, counted)?;
        state.output.push_str(text);
        Ok(())
    }

    /// `if` or `with`.
    fn choose(
        &mut self,
        state: &mut State<'t>,
        dot: &Value,
        pipe: &'t Pipe,
        (list, otherwise): (&'t [Node], &'t [Node]),
        becomes_dot: bool,
    ) -> Done<Flow> {
        let vars = state.vars.len();
        let value = self.pipe(state, dot, pipe)?;
        let flow = if value.is_true() {
            self.list(state, if becomes_dot { &value } else { dot }, list)?
        } else {
            self.list(state, dot, otherwise)?
        };
        state.vars.truncate(vars);
        Ok(flow)
    }

    fn range(
        &mut self,
        state: &mut State<'t>,
        dot: &Value,
        pipe: &'t Pipe,
        (list, otherwise): (&'t [Node], &'t [Node]),
    ) -> Done<Flow> {
        let vars = state.vars.len();
        let value = self.pipe(state, dot, pipe)?;
        let elements = match elements(&value) {
            Ok(elements) => elements,
            Err(shown) => return self.fail(state, &format!("range can't iterate over {shown}")),
        };
        let declared = state.vars.len();
        let mut flow = if elements.is_empty() { self.list(state, dot, otherwise)? } else { Flow::Normal };
        for (index, element) in elements {
            let counted = self.bounds.step();
            self.checked(state, counted)?;
            self.bind(state, pipe, &index, &element);
            let ended = self.list(state, &element, list)?;
            state.vars.truncate(declared);
            if ended == Flow::Break {
                break;
            }
            flow = Flow::Normal;
        }
        state.vars.truncate(vars);
        Ok(flow)
    }

    /// Gives the variables of a `range` their values for one element.
    fn bind(&self, state: &mut State<'t>, pipe: &'t Pipe, index: &Value, element: &Value) {
        let values = match pipe.decl.len() {
            0 => return,
            1 => [element, index],
            _ => [index, element],
        };
        let first = state.vars.len().saturating_sub(pipe.decl.len());
        for (at, (name, value)) in pipe.decl.iter().zip(values).enumerate() {
            if pipe.is_assign {
                set(state, name, value.clone());
            } else {
                state.vars[first + at].1 = value.clone();
            }
        }
    }

    /// `template`, which may print another template of the set.
    fn template(&mut self, state: &mut State<'t>, dot: &Value, name: &'t str, pipe: Option<&'t Pipe>) -> Done<()> {
        if !self.template.bodies.contains_key(name) {
            return self.fail(state, &format!("template {} not defined", literal::quoted(name)));
        }
        if self.depth >= DEPTH_MAX {
            return self.fail(state, &format!("exceeded maximum template depth ({DEPTH_MAX})"));
        }
        let dot = match pipe {
            Some(pipe) => self.pipe(state, dot, pipe)?,
            None => Value::Missing,
        };
        let output = self.enter(name, &dot)?;
        state.output.push_str(&output);
        Ok(())
    }

    /// Output of another template of the set.
    fn enter(&mut self, name: &str, dot: &Value) -> Done<String> {
        let template = self.template;
        let Some((name, nodes)) = template.bodies.get_key_value(name) else { return Ok(String::new()) };
        let mut state = State::new(name, dot);
        self.list(&mut state, dot, nodes)?;
        Ok(state.output)
    }

    fn pipe(&mut self, state: &mut State<'t>, dot: &Value, pipe: &'t Pipe) -> Done<Value> {
        state.at = At::Pipe(pipe);
        let counted = self.bounds.step();
        self.checked(state, counted)?;
        if self.depth >= DEPTH_MAX {
            return self.fail(state, "is nested too deeply");
        }
        self.depth += 1;
        let mut value = None;
        for command in &pipe.commands {
            let result = self.command(state, dot, command, value)?;
            // An empty interface is looked into between commands.
            value = Some(if matches!(result, Value::Nil) { Value::Missing } else { result });
        }
        self.depth -= 1;
        let value = value.unwrap_or_default();
        for name in &pipe.decl {
            if !pipe.is_assign {
                state.vars.push((name, value.clone()));
            } else if !set(state, name, value.clone()) {
                return self.fail(state, &format!("undefined variable: {name}"));
            }
        }
        Ok(value)
    }

    /// One command. `last` is the result of the command before it.
    fn command(
        &mut self,
        state: &mut State<'t>,
        dot: &Value,
        command: &'t Command,
        last: Option<Value>,
    ) -> Done<Value> {
        let Some((first, args)) = command.args.split_first() else { return Ok(Value::Missing) };
        match &first.kind {
            Kind::Field(names) => {
                state.at = At::Operand(first);
                self.fields(state, dot, dot.clone(), (first, names), args, last)
            }
            Kind::Chain(of, names) => self.chain(state, dot, (first, of), names, args, last),
            Kind::Identifier(name) => self.function(state, dot, first, At::Command(command), name, args, last),
            Kind::Variable(names) => self.variable(state, dot, (first, names), args, last),
            Kind::Pipe(pipe) => {
                self.no_arguments(state, first, args, last.as_ref())?;
                self.pipe(state, dot, pipe)
            }
            Kind::Nil | Kind::Bool(_) | Kind::Dot | Kind::Number(_) | Kind::Text { .. } => {
                state.at = At::Operand(first);
                self.no_arguments(state, first, args, last.as_ref())?;
                if matches!(first.kind, Kind::Nil) {
                    return self.fail(state, "nil is not a command");
                }
                self.constant(state, dot, first)
            }
        }
    }

    fn no_arguments(&self, state: &State<'t>, first: &Operand, args: &[Operand], last: Option<&Value>) -> Done<()> {
        if args.is_empty() && last.is_none() {
            return Ok(());
        }
        let shown = match &first.kind {
            Kind::Pipe(pipe) => pipe.to_string(),
            _ => first.to_string(),
        };
        self.fail(state, &format!("can't give argument to non-function {shown}"))
    }

    /// A literal or the dot, without an expected type.
    fn constant(&self, state: &State<'t>, dot: &Value, operand: &Operand) -> Done<Value> {
        match &operand.kind {
            Kind::Bool(truth) => Ok(Value::Bool(*truth)),
            Kind::Dot => Ok(dot.clone()),
            Kind::Number(number) => self.number(state, number),
            Kind::Text { text, .. } => Ok(Value::text(text)),
            Kind::Nil | Kind::Identifier(_) | Kind::Field(_) | Kind::Variable(_) | Kind::Chain(..) | Kind::Pipe(_) => {
                self.fail(state, &format!("can't handle assignment of {operand} to empty interface argument"))
            }
        }
    }

    /// A number of the type that its spelling suggests.
    fn number(&self, state: &State<'t>, number: &Number) -> Done<Value> {
        let spelled = &number.spelled;
        let is_hex = spelled.trim_start_matches(['+', '-']).starts_with(['0']) && spelled.contains(['x', 'X']);
        let marks: &[char] = if is_hex { &['p', 'P'] } else { &['.', 'e', 'E', 'p', 'P'] };
        let is_float = !number.is_char && spelled.contains(marks);
        match (is_float, number.float, number.int) {
            (true, Some(float), _) => Ok(Value::Float(float)),
            (_, _, Some(int)) => Ok(Value::Int(int)),
            _ => self.fail(state, &format!("{spelled} overflows int")),
        }
    }

    fn variable(
        &mut self,
        state: &mut State<'t>,
        dot: &Value,
        (whole, names): (&'t Operand, &'t [String]),
        args: &'t [Operand],
        last: Option<Value>,
    ) -> Done<Value> {
        state.at = At::Operand(whole);
        let Some((name, fields)) = names.split_first() else { return Ok(Value::Missing) };
        let found = state.vars.iter().rev().find(|(known, _)| known == name).map(|(_, value)| value.clone());
        let Some(value) = found else { return self.fail(state, &format!("undefined variable: {name}")) };
        if fields.is_empty() {
            self.no_arguments(state, whole, args, last.as_ref())?;
            return Ok(value);
        }
        self.fields(state, dot, value, (whole, fields), args, last)
    }

    fn chain(
        &mut self,
        state: &mut State<'t>,
        dot: &Value,
        (whole, of): (&'t Operand, &'t Operand),
        names: &'t [String],
        args: &'t [Operand],
        last: Option<Value>,
    ) -> Done<Value> {
        state.at = At::Operand(whole);
        if matches!(of.kind, Kind::Nil) {
            return self.fail(state, &format!("indirection through explicit nil in {whole}"));
        }
        let value = self.evaluated(state, dot, of)?;
        self.fields(state, dot, value, (whole, names), args, last)
    }
}

/// Indexes or keys, and elements, of what `range` goes over. The error is the value's text.
fn elements(value: &Value) -> Result<Vec<(Value, Value)>, String> {
    match value.plain() {
        Value::List(list) => {
            let items = list.items.iter().cloned().enumerate();
            Ok(items.map(|(index, item)| (Value::Int(i64::try_from(index).unwrap_or(i64::MAX)), item)).collect())
        }
        Value::Map(map) => Ok(map.items.iter().map(|(key, item)| (Value::Text(key.clone()), item.clone())).collect()),
        Value::Missing | Value::Nil => Ok(Vec::new()),
        other => Err(format::plain(&other)),
    }
}

/// Gives the innermost variable of a name another value. Returns whether there is one.
fn set(state: &mut State<'_>, name: &str, value: Value) -> bool {
    let found = state.vars.iter_mut().rev().find(|(known, _)| *known == name);
    found.map(|(_, known)| *known = value).is_some()
}

/// Element of a map, by the rule for missing keys.
fn element(template: &Template, map: &Map, key: &str) -> Result<Value, String> {
    match (map.items.get(key), template.missing_key) {
        (Some(value), _) => Ok(value.clone()),
        (None, super::MissingKey::Invalid) => Ok(Value::Missing),
        (None, super::MissingKey::Zero) => Ok(map.zero.clone()),
        (None, super::MissingKey::Error) => Err(format!("map has no entry for key {}", literal::quoted(key))),
    }
}
