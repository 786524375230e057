//! Pipelines: commands, operands, terms.

use super::{DEPTH_MAX, Parsed, Parser};
use crate::template::lex::{Item, Token};
use crate::template::literal;
use crate::template::node::{Command, Kind, Operand, Pipe};

impl Parser<'_> {
    /// Commands up to `end`, which is taken.
    pub(super) fn pipeline(&mut self, context: &str, end: Token) -> Parsed<Pipe> {
        let mut pipe =
            Pipe { pos: self.peek_non_space().pos, is_assign: false, decl: Vec::new(), commands: Vec::new() };
        self.declarations(context, &mut pipe)?;
        loop {
            let item = self.peek_non_space().clone();
            match item.token {
                token if token == end => {
                    self.next();
                    self.check(&pipe, context)?;
                    return Ok(pipe);
                }
                Token::Bool
                | Token::Char
                | Token::Dot
                | Token::Field
                | Token::Identifier
                | Token::Number
                | Token::Nil
                | Token::Raw
                | Token::Quoted
                | Token::Variable
                | Token::LeftParen => pipe.commands.push(self.command()?),
                _ => {
                    self.next();
                    return self.unexpected(&item, context);
                }
            }
        }
    }

    /// `$x :=`, `$x =` or `$k, $v :=` at the start of a pipeline.
    fn declarations(&mut self, context: &str, pipe: &mut Pipe) -> Parsed<()> {
        while self.peek_non_space().token == Token::Variable {
            let before = self.at;
            let variable = self.next();
            let mark = self.peek_non_space().token;
            match mark {
                Token::Assign | Token::Declare => {
                    pipe.is_assign = mark == Token::Assign;
                    self.next();
                    pipe.decl.push(variable.text.clone());
                    self.vars.push(variable.text);
                    return Ok(());
                }
                Token::Comma => {
                    self.next();
                    pipe.decl.push(variable.text.clone());
                    self.vars.push(variable.text);
                    if context != "range" || pipe.decl.len() >= 2 {
                        return self.fail(&format!("too many declarations in {context}"));
                    }
                    match self.peek_non_space().token {
                        Token::Variable | Token::RightDelim | Token::RightParen => {}
                        _ => return self.fail("range can only initialize variables"),
                    }
                }
                _ => {
                    self.at = before;
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    fn check(&self, pipe: &Pipe, context: &str) -> Parsed<()> {
        if pipe.commands.is_empty() {
            return self.fail(&format!("missing value for {context}"));
        }
        for (at, command) in pipe.commands.iter().enumerate().skip(1) {
            let first = command.args.first().map(|arg| &arg.kind);
            if let Some(Kind::Bool(_) | Kind::Dot | Kind::Nil | Kind::Number(_) | Kind::Text { .. }) = first {
                return self.fail(&format!("non executable command in pipeline stage {}", at + 1));
            }
        }
        Ok(())
    }

    fn command(&mut self) -> Parsed<Command> {
        let mut command = Command { pos: self.peek_non_space().pos, args: Vec::new() };
        loop {
            self.skip_space();
            if let Some(operand) = self.operand()? {
                command.args.push(operand);
            }
            match self.peek().token {
                Token::Space => {}
                Token::RightDelim | Token::RightParen => break,
                Token::Pipe => {
                    self.next();
                    break;
                }
                _ => {
                    let item = self.next();
                    return self.unexpected(&item, "operand");
                }
            }
        }
        if command.args.is_empty() { self.fail("empty command") } else { Ok(command) }
    }

    /// A term with the fields that follow it.
    fn operand(&mut self) -> Parsed<Option<Operand>> {
        let Some(term) = self.term()? else { return Ok(None) };
        if self.peek().token != Token::Field {
            return Ok(Some(term));
        }
        let pos = self.peek().pos;
        let mut fields = Vec::new();
        while self.peek().token == Token::Field {
            fields.push(self.next().text[1..].to_owned());
        }
        let kind = match term.kind {
            Kind::Field(mut names) => {
                names.append(&mut fields);
                Kind::Field(names)
            }
            Kind::Variable(mut names) => {
                names.append(&mut fields);
                Kind::Variable(names)
            }
            Kind::Bool(_) | Kind::Dot | Kind::Nil | Kind::Number(_) | Kind::Text { .. } => {
                return self.fail(&format!("unexpected . after term {}", literal::quoted(&term.to_string())));
            }
            Kind::Identifier(_) | Kind::Chain(..) | Kind::Pipe(_) => Kind::Chain(Box::new(term), fields),
        };
        Ok(Some(Operand { pos, kind }))
    }

    fn term(&mut self) -> Parsed<Option<Operand>> {
        let item = self.peek_non_space().clone();
        let kind = match item.token {
            Token::Identifier if !self.has_function(&item.text) => {
                return self.error(item.line, &format!("function {} not defined", literal::quoted(&item.text)));
            }
            Token::Identifier => Kind::Identifier(item.text.clone()),
            Token::Dot => Kind::Dot,
            Token::Nil => Kind::Nil,
            Token::Bool => Kind::Bool(item.text == "true"),
            Token::Field => Kind::Field(vec![item.text[1..].to_owned()]),
            Token::Variable if !self.vars.contains(&item.text) => {
                return self.error(item.line, &format!("undefined variable {}", literal::quoted(&item.text)));
            }
            Token::Variable => Kind::Variable(vec![item.text.clone()]),
            Token::Char | Token::Number => match literal::number(&item.text, item.token == Token::Char) {
                Ok(number) => Kind::Number(number),
                Err(error) => return self.error(item.line, &error),
            },
            Token::Quoted | Token::Raw => match literal::unquoted(&item.text) {
                Some(text) => Kind::Text { spelled: item.text.clone(), text },
                None => return self.error(item.line, "invalid syntax"),
            },
            Token::LeftParen => return self.parenthesized(&item).map(Some),
            _ => return Ok(None),
        };
        self.next();
        Ok(Some(Operand { pos: item.pos, kind }))
    }

    fn parenthesized(&mut self, item: &Item) -> Parsed<Operand> {
        self.next();
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return self.fail("parentheses are nested too deeply");
        }
        let pipe = self.pipeline("parenthesized pipeline", Token::RightParen)?;
        self.depth -= 1;
        Ok(Operand { pos: item.pos, kind: Kind::Pipe(Box::new(pipe)) })
    }
}
