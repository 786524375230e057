//! `dynamic` blocks, which generate a block for each element of a collection.

use std::collections::BTreeMap;

use super::{Decoder, Instance, unexpected};
use crate::hcl::ast::{Block, Body, Expression};
use crate::hcl::convert::{Type, convert};
use crate::hcl::eval::{self, Scope};
use crate::hcl::value::{Number, Value};
use crate::hcl::{Diagnostic, Range};

impl Decoder<'_> {
    /// `dynamic "kind" { for_each = .. labels = [..] content { .. } }`: generates a block for each element. `kinds` are
    /// the blocks that are allowed here, with the names of their labels.
    pub(super) fn expand<'b>(
        &mut self,
        block: &'b Block,
        kinds: &[(&str, &[&str])],
        scope: &Scope<'_>,
        instances: &mut Vec<(String, Instance<'b>)>,
    ) {
        let Some((kind, kind_range)) = block.labels.first() else { return };
        let Some((_, label_names)) = kinds.iter().find(|(known, _)| known == kind) else {
            let detail = format!("Blocks of type {kind:?} are not expected here.");
            return self.report(*kind_range, "Unsupported block type", detail);
        };
        let before = self.found.len();
        self.check_arguments(&block.body, !label_names.is_empty());
        let content = self.content_block(&block.body);
        if self.found.len() > before {
            return;
        }
        let (Some(content), Some(for_each)) = (content, block.body.attribute("for_each")) else { return };
        let Some(iterator) = self.iterator(&block.body, kind) else { return };
        let Some(pairs) = self.elements(&for_each.expression, scope) else { return };
        for (key, value) in pairs {
            let element = BTreeMap::from([("key".to_string(), key), ("value".to_string(), value)]);
            let names = BTreeMap::from([(iterator.clone(), eval::names_object(element))]);
            let inner = Scope::inside(scope, names.clone());
            let Some(labels) = self.dynamic_labels(&block.body, kind, label_names.len(), &inner) else { return };
            instances.push((kind.clone(), Instance { labels, body: &content.body, header: block.header(), names }));
        }
    }

    /// Reports arguments and blocks that are missing, or that no `dynamic` block has.
    fn check_arguments(&mut self, body: &Body, labelled: bool) {
        let required: &[&str] = if labelled { &["for_each", "labels"] } else { &["for_each"] };
        for name in required.iter().filter(|name| body.attribute(name).is_none()) {
            self.found.push(Diagnostic {
                range: body.missing,
                summary: "Missing required argument".to_string(),
                detail: format!("The argument {name:?} is required, but no definition was found."),
            });
        }
        let known: &[&str] = if labelled { &["for_each", "iterator", "labels"] } else { &["for_each", "iterator"] };
        unexpected(body, known, &["content"], &mut self.found);
    }

    /// The body of the generated blocks.
    fn content_block<'b>(&mut self, body: &'b Body) -> Option<&'b Block> {
        let contents: Vec<&Block> = body.blocks.iter().filter(|inner| inner.kind == "content").collect();
        match contents.as_slice() {
            [] => {
                let detail = "A dynamic block must have a nested block of type \"content\" to describe the body of each generated block.";
                self.found.push(Diagnostic {
                    range: body.missing,
                    summary: "Missing dynamic content block".to_string(),
                    detail: detail.to_string(),
                });
                None
            }
            [only] => Some(only),
            [_, second, ..] => {
                let detail = "Only one nested content block is allowed for each dynamic block.";
                self.report(second.header(), "Extraneous dynamic content block", detail);
                None
            }
        }
    }

    /// The name of the element inside the content: the kind of the blocks, unless the block names another.
    fn iterator(&mut self, body: &Body, kind: &str) -> Option<String> {
        let Some(given) = body.attribute("iterator") else { return Some(kind.to_string()) };
        match &given.expression {
            Expression::Scope { root, steps, .. } if steps.is_empty() => Some(root.clone()),
            Expression::Scope { range, .. } => {
                let detail = "Dynamic iterator must be a single variable name.";
                self.report(*range, "Invalid dynamic iterator name", detail);
                None
            }
            other => {
                let detail = "A single static variable reference is required: only attribute access and indexing with constant keys. \
                              No calculations, function calls, template expressions, etc are allowed here.";
                self.report(other.range(), "Invalid expression", detail);
                None
            }
        }
    }

    /// The keys and values of the collection. `None`: it is none, or not known.
    fn elements(&mut self, for_each: &Expression, scope: &Scope<'_>) -> Option<Vec<(Value, Value)>> {
        const SUMMARY: &str = "Invalid dynamic for_each value";
        match self.value(for_each, scope) {
            Value::Sequence(_, items) => {
                let numbered = items.into_iter().enumerate();
                Some(numbered.map(|(at, item)| (Value::Number(Number::from(at)), item)).collect())
            }
            Value::Mapping(_, members) => {
                Some(members.into_iter().map(|(name, value)| (Value::Text(name), value)).collect())
            }
            Value::Unknown => None,
            Value::Null => {
                self.report(for_each.range(), SUMMARY, "Cannot use a null value in for_each.");
                None
            }
            other @ (Value::Bool(_) | Value::Number(_) | Value::Text(_)) => {
                let kind = other.type_name();
                let detail = format!("Cannot use a {kind} value in for_each. An iterable collection is required.");
                self.report(for_each.range(), SUMMARY, detail);
                None
            }
        }
    }

    /// The labels of one generated block, of which there are `count`. `None`: they are wrong.
    fn dynamic_labels(
        &mut self,
        body: &Body,
        kind: &str,
        count: usize,
        scope: &Scope<'_>,
    ) -> Option<Vec<(String, Range)>> {
        let Some(labels) = body.attribute("labels") else { return Some(Vec::new()) };
        let Expression::Tuple { items, .. } = &labels.expression else {
            let detail = "A static list expression is required.";
            self.report(labels.expression.range(), "Invalid expression", detail);
            return None;
        };
        let wrong_count = match items.get(count) {
            Some(extra) => Some((extra.range(), "Extraneous dynamic block label")),
            None if items.len() < count => Some((labels.expression.range(), "Insufficient dynamic block labels")),
            None => None,
        };
        if let Some((range, summary)) = wrong_count {
            self.report(range, summary, format!("Blocks of type {kind:?} require {count} label(s)."));
            return None;
        }
        items.iter().map(|item| self.dynamic_label(item, scope)).collect()
    }

    fn dynamic_label(&mut self, item: &Expression, scope: &Scope<'_>) -> Option<(String, Range)> {
        const SUMMARY: &str = "Invalid dynamic block label";
        let range = item.range();
        let value = self.value(item, scope);
        match convert(&value, &Type::Text) {
            Ok(Value::Text(label)) => return Some((label, range)),
            Ok(Value::Null) => self.report(range, SUMMARY, "Cannot use a null value as a dynamic block label."),
            Ok(_) => {}
            Err(reason) => {
                let detail = format!("Cannot use this value as a dynamic block label: {reason}.");
                self.report(range, SUMMARY, detail);
            }
        }
        None
    }
}
