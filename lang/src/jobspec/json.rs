//! Job files in the JSON syntax of HCL 2: `{"job": {"web": {"group": {"g": {..}}}}}`. Only the schema distinguishes
//! blocks from attributes, and labels from members, so JSON values are converted to bodies along the schemas.
//! `decode.rs` decodes the bodies.

use super::schema::{CSI_PLUGIN, Field, JOB, Schema, TASK, TASK_SCALING, VAULT};
use crate::hcl::ast::{Attribute, Block, Body, Expression};
use crate::hcl::json::{self, Member, Node, NodeKind};
use crate::hcl::{Diagnostic, Range, suggestion};

/// A member name that is ignored in every object, for comments.
const COMMENT: &str = "//";

/// Expected content of a body.
#[derive(Clone, Copy)]
enum Shape {
    /// The top level of a file.
    Top,
    Fields(&'static Schema),
    /// Arbitrary attributes.
    Attributes,
    Variable,
    /// `for_each` and content with these fields. `None`: content with arbitrary attributes.
    Dynamic(Option<&'static Schema>),
    Validation,
}

/// A kind of block: its number of labels, and its content.
struct Kind {
    name: &'static str,
    labels: usize,
    shape: Shape,
    /// Whether the block may also be given as an attribute.
    attribute_too: bool,
}

fn kind(name: &'static str, labels: usize, shape: Shape) -> Kind {
    Kind { name, labels, shape, attribute_too: false }
}

/// Converts a text to a body.
pub(super) fn body(text: &str, file: &str) -> (Body, Vec<Diagnostic>) {
    let node = match json::parse(text) {
        Ok(node) => node,
        Err(found) => return (Body::default(), found),
    };
    let mut reader = Reader { file, found: Vec::new() };
    let body = reader.body(&node, Shape::Top);
    (body, reader.found)
}

impl Shape {
    /// The expected attributes and blocks. `None`: arbitrary attributes.
    fn expected(self) -> Option<(Vec<&'static str>, Vec<Kind>)> {
        match self {
            Shape::Attributes => None,
            Shape::Top => Some((
                Vec::new(),
                vec![
                    kind("variables", 0, Shape::Attributes),
                    kind("variable", 1, Shape::Variable),
                    kind("locals", 0, Shape::Attributes),
                    kind("job", 1, Shape::Fields(&JOB)),
                ],
            )),
            Shape::Variable => {
                Some((vec!["description", "default", "type"], vec![kind("validation", 0, Shape::Validation)]))
            }
            Shape::Validation => Some((vec!["condition", "error_message"], Vec::new())),
            Shape::Dynamic(content) => {
                let content = content.map_or(Shape::Attributes, Shape::Fields);
                Some((vec!["for_each", "iterator", "labels"], vec![kind("content", 0, content)]))
            }
            Shape::Fields(schema) => {
                let mut kinds: Vec<Kind> = schema.fields.iter().filter_map(kind_of).collect();
                if !kinds.is_empty() {
                    kinds.push(kind("dynamic", 1, Shape::Fields(schema)));
                }
                Some((schema.attribute_names(), kinds))
            }
        }
    }
}

fn kind_of(field: &Field) -> Option<Kind> {
    match field {
        Field::Strings { name, attribute_too, .. } => {
            Some(Kind { attribute_too: *attribute_too, ..kind(name, 0, Shape::Attributes) })
        }
        Field::StringLists { name, .. } | Field::Free { name, .. } => Some(kind(name, 0, Shape::Attributes)),
        Field::Block { name, schema, .. } | Field::Blocks { name, schema, .. } | Field::Keyed { name, schema, .. } => {
            Some(kind(name, schema.labels.len(), Shape::Fields(schema)))
        }
        Field::Special { name, labels, .. } => {
            let shape = match *name {
                "task" => Shape::Fields(&TASK),
                "vault" => Shape::Fields(&VAULT),
                "csi_plugin" => Shape::Fields(&CSI_PLUGIN),
                "scaling" => Shape::Fields(&TASK_SCALING),
                // Decoders of constraints and affinities check the names themselves.
                _ => Shape::Attributes,
            };
            Some(kind(name, labels.len(), shape))
        }
        Field::Attribute { .. } | Field::Label { .. } | Field::Fixed { .. } | Field::After { .. } => None,
    }
}

struct Reader<'a> {
    file: &'a str,
    found: Vec<Diagnostic>,
}

impl Reader<'_> {
    fn body(&mut self, node: &Node, shape: Shape) -> Body {
        let mut body = Body { missing: Some(node.open()), ..Body::default() };
        let expected = shape.expected();
        let NodeKind::Object(members) = &node.kind else {
            let detail = format!(
                "A JSON object is required here, to define arguments and child blocks; this is a JSON {}.",
                node.type_name()
            );
            self.found.push(Diagnostic::new(node.open(), "Incorrect JSON value type", detail));
            return body;
        };
        for member in members.iter().filter(|member| member.name != COMMENT) {
            let Some((attributes, kinds)) = &expected else {
                self.attribute(member, shape, &mut body);
                continue;
            };
            match kinds.iter().find(|kind| kind.name == member.name) {
                Some(kind) if !(kind.attribute_too && is_expression(&member.value)) => {
                    self.blocks(member, kind, shape, &mut body)
                }
                _ if attributes.contains(&member.name.as_str()) => self.attribute(member, shape, &mut body),
                _ => self.extraneous(member, attributes, kinds),
            }
        }
        body
    }

    fn extraneous(&mut self, member: &Member, attributes: &[&'static str], kinds: &[Kind]) {
        let mut known: Vec<&str> = attributes.iter().copied().chain(kinds.iter().map(|kind| kind.name)).collect();
        known.sort_unstable();
        let hint = suggestion(&member.name, known).map(|known| format!(" Did you mean {known:?}?")).unwrap_or_default();
        let detail = format!("No argument or block type is named {:?}.{hint}", member.name);
        self.found.push(Diagnostic::new(member.name_range, "Extraneous JSON object property", detail));
    }

    fn attribute(&mut self, member: &Member, shape: Shape, body: &mut Body) {
        if let Some(existing) = body.attribute(&member.name) {
            let detail =
                format!("The argument {:?} was already set at {}.", member.name, existing.name_range.shown(self.file));
            self.found.push(Diagnostic::new(member.name_range, "Duplicate argument", detail));
            return;
        }
        let spelled =
            matches!((shape, member.name.as_str()), (Shape::Variable, "type") | (Shape::Dynamic(_), "iterator"));
        let expression: Expression = if spelled {
            member.value.spelled(self.file, &mut self.found)
        } else {
            member.value.expression(self.file, &mut self.found)
        };
        let range = member.name_range.to(member.value.range);
        body.attributes.push(Attribute { name: member.name.clone(), expression, range, name_range: member.name_range });
    }

    /// Adds the blocks of one kind: one level of objects for each label, then one object per block.
    fn blocks(&mut self, member: &Member, kind: &Kind, parent: Shape, body: &mut Body) {
        let mut at = vec![(Vec::new(), &member.value)];
        for _ in 0..kind.labels {
            let mut below = Vec::new();
            for (labels, node) in at {
                for node in each(node) {
                    let NodeKind::Object(members) = &node.kind else {
                        let detail = format!(
                            "A JSON object is required, whose keys represent the {} block's labels.",
                            kind.name
                        );
                        self.found.push(Diagnostic::new(node.open(), "Incorrect JSON value type", detail));
                        continue;
                    };
                    for member in members.iter().filter(|member| member.name != COMMENT) {
                        let mut labels: Vec<(String, Range)> = labels.clone();
                        labels.push((member.name.clone(), member.name_range));
                        below.push((labels, &member.value));
                    }
                }
            }
            at = below;
        }
        for (labels, node) in at {
            for node in each(node) {
                let shape = match (kind.name, parent) {
                    ("dynamic", Shape::Fields(schema)) => match self.content_of(schema, &labels) {
                        Some(shape) => shape,
                        None => continue,
                    },
                    _ => kind.shape,
                };
                let inside = self.body(node, shape);
                body.blocks.push(Block {
                    kind: member.name.clone(),
                    labels: labels.clone(),
                    body: inside,
                    kind_range: member.name_range,
                    open_brace: node.open(),
                });
            }
        }
    }

    /// The shape of the content of a `dynamic` block, for blocks of the kind in its label.
    fn content_of(&mut self, schema: &'static Schema, labels: &[(String, Range)]) -> Option<Shape> {
        let (wanted, range) = labels.first()?;
        match schema.fields.iter().filter_map(kind_of).find(|kind| kind.name == wanted) {
            Some(kind) => Some(Shape::Dynamic(match kind.shape {
                Shape::Fields(schema) => Some(schema),
                Shape::Top | Shape::Attributes | Shape::Variable | Shape::Dynamic(_) | Shape::Validation => None,
            })),
            None => {
                let detail = format!("Blocks of type {wanted:?} are not expected here.");
                self.found.push(Diagnostic::new(*range, "Unsupported block type", detail));
                None
            }
        }
    }
}

/// Whether a member that may be a block or an attribute is an attribute: a single value that is not an object.
fn is_expression(node: &Node) -> bool {
    !each(node).iter().all(|node| matches!(node.kind, NodeKind::Object(_)))
}

/// The items of an array, nothing for null, and otherwise the value itself.
fn each(node: &Node) -> Vec<&Node> {
    match &node.kind {
        NodeKind::Invalid | NodeKind::Null => Vec::new(),
        NodeKind::Array(items) => items.iter().collect(),
        NodeKind::Bool(_) | NodeKind::Number(_) | NodeKind::Text(_) | NodeKind::Object(_) => vec![node],
    }
}

#[cfg(test)]
mod tests;
