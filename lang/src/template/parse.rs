//! From tokens to trees: actions, control structures and definitions.

mod pipeline;

use std::collections::BTreeMap;

use super::lex::{self, Item, Token};
use super::node::Node;
use super::{Library, Options, builtin};

/// Deepest nesting of actions and of parentheses.
const DEPTH_MAX: usize = 100;

/// Parses a text into the named template and those that it defines.
pub(super) fn parse(
    name: &str,
    text: &str,
    options: &Options,
    library: &dyn Library,
) -> Result<BTreeMap<String, Vec<Node>>, String> {
    let items = lex::items(text, options);
    let mut parser = Parser {
        name,
        library,
        items,
        at: 0,
        vars: vec!["$".to_owned()],
        ranges: 0,
        depth: 0,
        bodies: BTreeMap::new(),
    };
    let root = parser.root()?;
    parser.add(name, root)?;
    Ok(parser.bodies)
}

struct Parser<'a> {
    name: &'a str,
    library: &'a dyn Library,
    items: Vec<Item>,
    at: usize,
    /// Variables in scope, with `$`.
    vars: Vec<String>,
    /// Number of `range` around the current place.
    ranges: usize,
    depth: usize,
    bodies: BTreeMap<String, Vec<Node>>,
}

/// End of a list of nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ended {
    End,
    Else,
    ElseIf,
}

impl Ended {
    fn shown(self) -> &'static str {
        match self {
            Self::End => "{{end}}",
            Self::Else | Self::ElseIf => "{{else}}",
        }
    }
}

/// A node, or the end of the list.
enum Part {
    Node(Node),
    Ended(Ended),
    /// A definition or a comment.
    Nothing,
}

type Parsed<T> = Result<T, String>;

impl Parser<'_> {
    /// The next token. The last one repeats.
    fn next(&mut self) -> Item {
        let item = self.peek().clone();
        if self.at + 1 < self.items.len() {
            self.at += 1;
        }
        item
    }

    fn peek(&self) -> &Item {
        &self.items[self.at]
    }

    fn skip_space(&mut self) {
        while self.peek().token == Token::Space {
            self.at += 1;
        }
    }

    fn next_non_space(&mut self) -> Item {
        self.skip_space();
        self.next()
    }

    fn peek_non_space(&mut self) -> &Item {
        self.skip_space();
        self.peek()
    }

    fn error<T>(&self, line: usize, message: &str) -> Parsed<T> {
        Err(format!("template: {}:{line}: {message}", self.name))
    }

    /// An error at the token that was read last.
    fn fail<T>(&self, message: &str) -> Parsed<T> {
        let last = if self.peek().token == Token::Eof { self.at } else { self.at.saturating_sub(1) };
        self.error(self.items[last].line, message)
    }

    fn unexpected<T>(&self, item: &Item, context: &str) -> Parsed<T> {
        match item.token {
            Token::Error => self.error(item.line, &item.text),
            _ => self.error(item.line, &format!("unexpected {} in {context}", item.shown())),
        }
    }

    fn expect(&mut self, token: Token, context: &str) -> Parsed<Item> {
        let item = self.next_non_space();
        if item.token == token { Ok(item) } else { self.unexpected(&item, context) }
    }

    /// The whole text.
    fn root(&mut self) -> Parsed<Vec<Node>> {
        let mut nodes = Vec::new();
        while self.peek().token != Token::Eof {
            match self.text_or_action(true)? {
                Part::Node(node) => nodes.push(node),
                Part::Ended(ended) => return self.fail(&format!("unexpected {}", ended.shown())),
                Part::Nothing => {}
            }
        }
        Ok(nodes)
    }

    fn add(&mut self, name: &str, nodes: Vec<Node>) -> Parsed<()> {
        let is_empty =
            |nodes: &[Node]| nodes.iter().all(|node| matches!(node, Node::Text(text) if text.trim().is_empty()));
        match self.bodies.get(name) {
            Some(known) if !is_empty(known) && !is_empty(&nodes) => {
                self.fail(&format!("template: multiple definition of template {}", super::literal::quoted(name)))
            }
            Some(known) if !is_empty(known) => Ok(()),
            Some(_) | None => {
                self.bodies.insert(name.to_owned(), nodes);
                Ok(())
            }
        }
    }

    fn text_or_action(&mut self, is_top: bool) -> Parsed<Part> {
        let item = self.next_non_space();
        match item.token {
            Token::Text => Ok(Part::Node(Node::Text(item.text))),
            Token::LeftDelim => {
                if is_top && self.peek_non_space().token == Token::Define {
                    self.next();
                    self.definition()?;
                    return Ok(Part::Nothing);
                }
                self.depth += 1;
                if self.depth > DEPTH_MAX {
                    return self.fail("actions are nested too deeply");
                }
                let part = self.action();
                self.depth -= 1;
                part
            }
            _ => self.unexpected(&item, "input"),
        }
    }

    /// A template's own list of nodes, with its own variables.
    fn body(&mut self) -> Parsed<(Vec<Node>, Ended)> {
        let vars = std::mem::replace(&mut self.vars, vec!["$".to_owned()]);
        let ranges = std::mem::take(&mut self.ranges);
        let list = self.list();
        (self.vars, self.ranges) = (vars, ranges);
        list
    }

    fn definition(&mut self) -> Parsed<()> {
        const CONTEXT: &str = "define clause";
        let token = self.next_non_space();
        let name = self.template_name(&token, CONTEXT)?;
        self.expect(Token::RightDelim, CONTEXT)?;
        let (nodes, ended) = self.body()?;
        if ended != Ended::End {
            return self.fail(&format!("unexpected {} in {CONTEXT}", ended.shown()));
        }
        self.add(&name, nodes)
    }

    fn list(&mut self) -> Parsed<(Vec<Node>, Ended)> {
        let mut nodes = Vec::new();
        while self.peek_non_space().token != Token::Eof {
            match self.text_or_action(false)? {
                Part::Node(node) => nodes.push(node),
                Part::Ended(ended) => return Ok((nodes, ended)),
                Part::Nothing => {}
            }
        }
        self.fail("unexpected EOF")
    }

    fn action(&mut self) -> Parsed<Part> {
        let token = self.peek_non_space().token;
        let taken = matches!(
            token,
            Token::Block
                | Token::Break
                | Token::Continue
                | Token::Else
                | Token::End
                | Token::If
                | Token::Range
                | Token::Template
                | Token::With
        );
        if taken {
            self.next();
        }
        match token {
            Token::Block => self.block().map(Part::Node),
            Token::Break => self.leave("{{break}}", Node::Break),
            Token::Continue => self.leave("{{continue}}", Node::Continue),
            Token::Else => self.otherwise(),
            Token::End => self.expect(Token::RightDelim, "end").map(|_| Part::Ended(Ended::End)),
            Token::If => self.control("if").map(Part::Node),
            Token::Range => self.control("range").map(Part::Node),
            Token::Template => self.call().map(Part::Node),
            Token::With => self.control("with").map(Part::Node),
            _ => {
                let pipe = self.pipeline("command", Token::RightDelim)?;
                Ok(Part::Node(Node::Action { pipe }))
            }
        }
    }

    fn leave(&mut self, word: &str, node: Node) -> Parsed<Part> {
        let item = self.next_non_space();
        if item.token != Token::RightDelim {
            return self.unexpected(&item, word);
        }
        if self.ranges == 0 { self.fail(&format!("{word} outside {{{{range}}}}")) } else { Ok(Part::Node(node)) }
    }

    fn otherwise(&mut self) -> Parsed<Part> {
        // The word after `else` is read by the structure around it.
        if self.peek_non_space().token == Token::If {
            return Ok(Part::Ended(Ended::ElseIf));
        }
        self.expect(Token::RightDelim, "else").map(|_| Part::Ended(Ended::Else))
    }

    /// `if`, `with` or `range`, up to its end.
    fn control(&mut self, word: &str) -> Parsed<Node> {
        let vars = self.vars.len();
        let pipe = self.pipeline(word, Token::RightDelim)?;
        let loops = usize::from(word == "range");
        self.ranges += loops;
        let list = self.list();
        self.ranges -= loops;
        let (list, ended) = list?;
        let otherwise = match ended {
            Ended::End => Vec::new(),
            Ended::ElseIf if word == "if" => {
                self.next();
                self.depth += 1;
                if self.depth > DEPTH_MAX {
                    return self.fail("actions are nested too deeply");
                }
                let nested = self.control("if")?;
                self.depth -= 1;
                vec![nested]
            }
            Ended::ElseIf => {
                let item = self.next();
                return self.unexpected(&item, "input");
            }
            Ended::Else => {
                let (list, ended) = self.list()?;
                if ended != Ended::End {
                    return self.fail(&format!("expected end; found {}", ended.shown()));
                }
                list
            }
        };
        self.vars.truncate(vars);
        Ok(match word {
            "if" => Node::If { pipe, list, otherwise },
            "with" => Node::With { pipe, list, otherwise },
            _ => Node::Range { pipe, list, otherwise },
        })
    }

    fn template_name(&mut self, token: &Item, context: &str) -> Parsed<String> {
        match token.token {
            Token::Quoted | Token::Raw => match super::literal::unquoted(&token.text) {
                Some(name) => Ok(name),
                None => self.error(token.line, "invalid syntax"),
            },
            _ => self.unexpected(token, context),
        }
    }

    /// `template "name" pipeline`.
    fn call(&mut self) -> Parsed<Node> {
        const CONTEXT: &str = "template clause";
        let token = self.next_non_space();
        let name = self.template_name(&token, CONTEXT)?;
        let pipe = if self.peek_non_space().token == Token::RightDelim {
            self.next();
            None
        } else {
            Some(self.pipeline(CONTEXT, Token::RightDelim)?)
        };
        Ok(Node::Template { pos: token.pos, name, pipe })
    }

    /// `block "name" pipeline`: a definition, and its use at its place.
    fn block(&mut self) -> Parsed<Node> {
        const CONTEXT: &str = "block clause";
        let token = self.next_non_space();
        let name = self.template_name(&token, CONTEXT)?;
        let pipe = self.pipeline(CONTEXT, Token::RightDelim)?;
        let (nodes, ended) = self.body()?;
        if ended != Ended::End {
            return self.fail(&format!("unexpected {} in {CONTEXT}", ended.shown()));
        }
        self.add(&name, nodes)?;
        Ok(Node::Template { pos: token.pos, name, pipe: Some(pipe) })
    }

    fn has_function(&self, name: &str) -> bool {
        builtin::signature(name).is_some() || self.library.signature(name).is_some()
    }
}
