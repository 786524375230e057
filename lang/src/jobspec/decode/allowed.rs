//! Checks of labels, and of attributes and blocks that are not allowed.

use crate::hcl::ast::{Block, Body};
use crate::hcl::{Diagnostic, suggestion};

/// Reports blocks with too few or too many labels. Returns the correct ones, and `dynamic` ones.
pub(in crate::jobspec) fn check_labels<'b>(
    blocks: &'b [Block],
    kinds: &[(&str, &[&str])],
    found: &mut Vec<Diagnostic>,
) -> Vec<&'b Block> {
    let mut sound = Vec::new();
    for block in blocks {
        let labels: &[&str] = match kinds.iter().find(|(kind, _)| *kind == block.kind) {
            Some((_, labels)) => labels,
            None if block.kind == "dynamic" && !kinds.is_empty() => &["type"],
            None => continue,
        };
        let kind = &block.kind;
        let listed = labels.join(", ");
        if let Some((_, extra)) = block.labels.get(labels.len()) {
            let detail = if labels.is_empty() {
                format!("No labels are expected for {kind} blocks.")
            } else {
                format!("Only {} labels ({listed}) are expected for {kind} blocks.", labels.len())
            };
            found.push(Diagnostic::new(*extra, format!("Extraneous label for {kind}"), detail));
        } else if let Some(missing) = labels.get(block.labels.len()) {
            let detail = format!("All {kind} blocks must have {} labels ({listed}).", labels.len());
            found.push(Diagnostic::new(block.open_brace, format!("Missing {missing} for {kind}"), detail));
        } else {
            sound.push(block);
        }
    }
    sound
}

/// Reports unexpected attributes and blocks, with suggestions.
pub(in crate::jobspec) fn unexpected(body: &Body, attributes: &[&str], blocks: &[&str], found: &mut Vec<Diagnostic>) {
    let mut sorted_attributes = attributes.to_vec();
    sorted_attributes.sort_unstable();
    let mut sorted_blocks = blocks.to_vec();
    sorted_blocks.sort_unstable();
    for attribute in &body.attributes {
        let name = &attribute.name;
        if attributes.contains(&name.as_str()) {
            continue;
        }
        let unset = sorted_attributes.iter().copied().filter(|known| body.attribute(known).is_none());
        let hint = match suggestion(name, unset) {
            Some(known) => format!(" Did you mean {known:?}?"),
            None if blocks.contains(&name.as_str()) => format!(" Did you mean to define a block of type {name:?}?"),
            None => String::new(),
        };
        found.push(Diagnostic::new(
            attribute.name_range,
            "Unsupported argument",
            format!("An argument named {name:?} is not expected here.{hint}"),
        ));
    }
    for block in &body.blocks {
        let kind = &block.kind;
        if blocks.contains(&kind.as_str()) || (kind == "dynamic" && !attributes.is_empty()) {
            continue;
        }
        let hint = match suggestion(kind, sorted_blocks.iter().copied()) {
            Some(known) => format!(" Did you mean {known:?}?"),
            None if attributes.contains(&kind.as_str()) => {
                format!(" Did you mean to define argument {kind:?}? If so, use the equals sign to assign it a value.")
            }
            None => String::new(),
        };
        found.push(Diagnostic::new(
            block.kind_range,
            "Unsupported block type",
            format!("Blocks of type {kind:?} are not expected here.{hint}"),
        ));
    }
}

/// Reports blocks where only attributes are allowed.
pub(in crate::jobspec) fn no_blocks(body: &Body, found: &mut Vec<Diagnostic>) {
    for block in &body.blocks {
        found.push(Diagnostic::new(
            block.kind_range,
            format!("Unexpected {:?} block", block.kind),
            "Blocks are not allowed here.",
        ));
    }
}
