//! `dynamic` blocks, which generate a block for each element of a collection.

use std::collections::BTreeMap;

use serde_json::Value as Json;

use super::{Decoder, Instance};
use crate::hcl::ast::Block;
use crate::hcl::eval::{self, Scope};
use crate::hcl::value::{Number, Value};
use crate::hcl::{Diagnostic, Range};
use crate::jobspec::schema::Kind;

impl Decoder<'_> {
    /// `dynamic "kind" { for_each = .. content { .. } }`: generates a block for each element.
    pub(super) fn expand<'b>(
        &mut self,
        block: &'b Block,
        names: &[&str],
        scope: &Scope<'_>,
        instances: &mut Vec<(String, Instance<'b>)>,
    ) {
        let Some((kind, kind_range)) = block.labels.first() else { return };
        if !names.contains(&kind.as_str()) {
            self.report(
                *kind_range,
                "Unsupported block type",
                format!("Blocks of type {kind:?} are not expected here."),
            );
            return;
        }
        let missing = |name: &str| Diagnostic {
            range: block.body.missing,
            summary: "Missing required argument".to_string(),
            detail: format!("The argument {name:?} is required, but no definition was found."),
        };
        let Some(for_each) = block.body.attribute("for_each") else {
            self.found.push(missing("for_each"));
            return;
        };
        let Some(content) = block.body.blocks.iter().find(|inner| inner.kind == "content") else {
            self.found.push(Diagnostic {
                range: block.body.missing,
                summary: "Missing content block".to_string(),
                detail: "A content block is required.".to_string(),
            });
            return;
        };
        let iterator =
            block.body.attribute("iterator").and_then(|given| given.expression.keyword()).unwrap_or(kind).to_string();
        let collection = self.value(&for_each.expression, scope);
        let pairs: Vec<(Value, Value)> = match collection {
            Value::Sequence(_, items) => {
                items.into_iter().enumerate().map(|(at, item)| (Value::Number(Number::from(at)), item)).collect()
            }
            Value::Mapping(_, members) => members.into_iter().map(|(name, value)| (Value::Text(name), value)).collect(),
            Value::Unknown => return,
            Value::Null => {
                self.report(
                    for_each.expression.range(),
                    "Invalid dynamic for_each value",
                    "Cannot use a null value in for_each.",
                );
                return;
            }
            other => {
                let detail = format!(
                    "Cannot use a {} value in for_each. An iterable collection is required.",
                    other.type_name()
                );
                self.report(for_each.expression.range(), "Invalid dynamic for_each value", detail);
                return;
            }
        };
        for (key, value) in pairs {
            let element = BTreeMap::from([("key".to_string(), key), ("value".to_string(), value)]);
            let names = BTreeMap::from([(iterator.clone(), eval::names_object(element))]);
            let labels = self.dynamic_labels(block, &Scope::inside(scope, names.clone()));
            instances.push((kind.clone(), Instance { labels, body: &content.body, header: block.header(), names }));
        }
    }

    fn dynamic_labels(&mut self, block: &Block, scope: &Scope<'_>) -> Vec<(String, Range)> {
        let Some(labels) = block.body.attribute("labels") else { return Vec::new() };
        let range = labels.expression.range();
        match self.attribute(labels, Kind::Texts, scope) {
            Some(Json::Array(items)) => {
                items.into_iter().filter_map(|item| item.as_str().map(|label| (label.to_string(), range))).collect()
            }
            _ => Vec::new(),
        }
    }
}
