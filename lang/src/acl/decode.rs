//! Decodes the blocks of an HCL 1 text to the fields of a policy, in the manner of the reference: keys match in any
//! letter case, a repeated block merges into the first, and errors about shapes name the path. The words are checked
//! in `parse`.

use crate::hcl1::{self, Item, Node, NodeKind, Place};

use super::written::{Named, Namespace, PathRule, Written};

/// Source that a field is decoded from.
#[derive(Clone)]
enum Input {
    /// The content of a block, or blocks with remaining labels.
    Items(Vec<Item>),
    /// A single item.
    Item(Item),
    /// A value.
    Value(Node),
}

impl Input {
    /// The kind, as error texts name it.
    fn kind(&self) -> &'static str {
        match self {
            Input::Items(_) => "*ast.ObjectList",
            Input::Item(_) => "*ast.ObjectItem",
            Input::Value(node) => match node.kind {
                NodeKind::List(_) => "*ast.ListType",
                NodeKind::Object(_) => "*ast.ObjectType",
                NodeKind::Bool(_) | NodeKind::Integer(_) | NodeKind::Float(_) | NodeKind::Text(_) => "*ast.LiteralType",
            },
        }
    }

    /// The position of its start; an empty block has none.
    fn place(&self) -> Result<Place, String> {
        let of = |item: &Item| item.places.first().copied().unwrap_or(item.value.place);
        match self {
            Input::Items(items) => items.first().map(of).ok_or_else(|| out_of_range(0, 0)),
            Input::Item(item) => Ok(of(item)),
            Input::Value(node) => Ok(node.place),
        }
    }

    fn wrong(&self, message: &str) -> String {
        match self.place() {
            Ok(place) => format!("At {place}: {message}"),
            Err(error) => error,
        }
    }
}

/// Error text of the reference for a crash of its decoder.
fn out_of_range(index: usize, length: usize) -> String {
    format!("invalid acl policy: runtime error: index out of range [{index}] with length {length}")
}

/// Decodes a whole text.
pub(super) fn decode(text: &str) -> Result<Written, String> {
    let items = hcl1::parse_either(text).map_err(|error| error.to_string())?;
    let mut out = Written { raw: text.to_owned(), ..Written::default() };
    for input in field(&items, "namespace") {
        out.namespaces.get_or_insert_default().extend(each("root.namespace", input, namespace)?);
    }
    for (key, to) in [("node_pool", &mut out.node_pools), ("host_volume", &mut out.host_volumes)] {
        for input in field(&items, key) {
            to.get_or_insert_default().extend(each(&format!("root.{key}"), input, named)?);
        }
    }
    let singles = [
        ("agent", &mut out.agent),
        ("node", &mut out.node),
        ("operator", &mut out.operator),
        ("quota", &mut out.quota),
        ("plugin", &mut out.plugin),
    ];
    for (key, to) in singles {
        for input in field(&items, key) {
            let name = format!("root.{key}");
            let (_, content) = structure(&name, input)?;
            let word = &mut to.get_or_insert_default().policy;
            for input in field(&content, "policy") {
                *word = text_of(&format!("{name}.Policy"), &input)?;
            }
        }
    }
    unlabelled(&items, &mut out)?;
    Ok(out)
}

fn namespace(name: &str, input: Input) -> Result<Namespace, String> {
    let (label, content) = structure(name, input)?;
    let mut out = Namespace { name: key(name, "Name", label, &content)?, ..Namespace::default() };
    (out.policy, out.capabilities) = words(name, &content)?;
    for input in field(&content, "variables") {
        let name = format!("{name}.variables");
        let (_, content) = structure(&name, input)?;
        let paths = &mut out.variables.get_or_insert_default().paths;
        for input in field(&content, "path") {
            paths.get_or_insert_default().extend(each(&format!("{name}.path"), input, path)?);
        }
    }
    Ok(out)
}

fn path(name: &str, input: Input) -> Result<PathRule, String> {
    let (label, content) = structure(name, input)?;
    Ok(PathRule { path: key(name, "PathSpec", label, &content)?, capabilities: capabilities(name, &content)? })
}

fn named(name: &str, input: Input) -> Result<Named, String> {
    let (label, content) = structure(name, input)?;
    let label = key(name, "Name", label, &content)?;
    let (policy, capabilities) = words(name, &content)?;
    Ok(Named { name: label, policy, capabilities })
}

fn words(name: &str, content: &[Item]) -> Result<(String, Option<Vec<String>>), String> {
    let mut policy = String::new();
    for input in field(content, "policy") {
        policy = text_of(&format!("{name}.Policy"), &input)?;
    }
    Ok((policy, capabilities(name, content)?))
}

fn capabilities(name: &str, content: &[Item]) -> Result<Option<Vec<String>>, String> {
    let mut out: Option<Vec<String>> = None;
    for input in field(content, "capabilities") {
        let text = |name: &str, input: Input| text_of(name, &input);
        out.get_or_insert_default().extend(each(&format!("{name}.Capabilities"), input, text)?);
    }
    Ok(out)
}

/// The label of a block; `field` is the label's field in error texts.
fn key(name: &str, field: &str, label: Option<String>, content: &[Item]) -> Result<String, String> {
    label.ok_or_else(|| Input::Items(content.to_vec()).wrong(&format!("{name}: {field} asked for 'key', impossible")))
}

/// The parts of a block's content for a field: first all items with labels together, then each one without.
fn field(items: &[Item], name: &str) -> Vec<Input> {
    let of_name = |item: &&Item| item.keys.first().is_some_and(|key| key == name || key.to_lowercase() == name);
    let without_key =
        |item: &Item| Item { keys: item.keys[1..].to_vec(), places: item.places[1..].to_vec(), ..item.clone() };
    let (labelled, plain): (Vec<Item>, Vec<Item>) =
        items.iter().filter(of_name).map(without_key).partition(|item| !item.keys.is_empty());
    let labelled = (!labelled.is_empty()).then_some(Input::Items(labelled));
    let plain = plain.into_iter().map(|item| match item.value {
        Node { kind: NodeKind::Object(items), .. } => Input::Items(items),
        value => Input::Value(value),
    });
    labelled.into_iter().chain(plain).collect()
}

/// Decodes each element of a list, or each block.
fn each<T>(name: &str, input: Input, read: impl Fn(&str, Input) -> Result<T, String>) -> Result<Vec<T>, String> {
    let elements: Vec<Input> = match input {
        Input::Items(items) => items.into_iter().map(Input::Item).collect(),
        Input::Value(Node { kind: NodeKind::List(nodes), .. }) => nodes.into_iter().map(Input::Value).collect(),
        Input::Value(Node { kind: NodeKind::Object(_), .. }) => vec![input],
        Input::Item(_) | Input::Value(_) => return Err(input.wrong(&format!("unknown slice type: {}", input.kind()))),
    };
    elements.into_iter().enumerate().map(|(index, element)| read(&format!("{name}[{index}]"), element)).collect()
}

/// The label and content of a block. With two labels, the second one names a nested block.
fn structure(name: &str, input: Input) -> Result<(Option<String>, Vec<Item>), String> {
    match input {
        Input::Items(items) => Ok((None, items)),
        Input::Value(Node { kind: NodeKind::Object(items), .. }) => Ok((None, items)),
        Input::Item(item) if item.keys.len() == 2 => {
            let inner = Item { keys: item.keys[1..].to_vec(), places: item.places[1..].to_vec(), ..item.clone() };
            Ok((item.keys.first().cloned(), vec![inner]))
        }
        Input::Item(item) => {
            let label = item.keys.first().cloned();
            match item.value.kind {
                NodeKind::Object(items) => Ok((label, items)),
                NodeKind::List(_) => Err(not_an_object(name, &Input::Value(item.value))),
                NodeKind::Bool(_) | NodeKind::Integer(_) | NodeKind::Float(_) | NodeKind::Text(_) => {
                    Ok((label, vec![item]))
                }
            }
        }
        Input::Value(_) => Err(not_an_object(name, &input)),
    }
}

fn not_an_object(name: &str, input: &Input) -> String {
    input.wrong(&format!("{name}: not an object type for struct ({})", input.kind()))
}

fn text_of(name: &str, input: &Input) -> Result<String, String> {
    match input {
        Input::Value(Node { kind: NodeKind::Text(text) | NodeKind::Integer(text), .. }) => Ok(text.clone()),
        Input::Value(_) | Input::Item(_) | Input::Items(_) => {
            Err(input.wrong(&format!("{name}: unknown type for string {}", input.kind())))
        }
    }
}

/// Clears the labels of unlabelled blocks: the decoder took their first field for the label, and the missing label has
/// to be reported.
fn unlabelled(items: &[Item], out: &mut Written) -> Result<(), String> {
    let blocks = |items: &[Item], name: &str| -> Vec<Item> {
        let of_name = |item: &&Item| item.keys.first().is_some_and(|key| key == name || key.to_lowercase() == name);
        items.iter().filter(of_name).cloned().collect()
    };
    for (index, block) in blocks(items, "namespace").iter().enumerate() {
        let namespaces = out.namespaces.get_or_insert_default();
        if block.keys.len() == 1 {
            at(namespaces, index)?.name.clear();
        }
        let NodeKind::Object(content) = &block.value.kind else { continue };
        let variables = blocks(content, "variables");
        let Some(Item { value: Node { kind: NodeKind::Object(content), .. }, .. }) = variables.first() else {
            continue;
        };
        for (nth, path) in blocks(content, "path").iter().enumerate() {
            if path.keys.len() == 1 {
                let variables = at(namespaces, index)?.variables.as_mut();
                let missing = || {
                    "invalid acl policy: runtime error: invalid memory address or nil pointer dereference".to_owned()
                };
                at(variables.ok_or_else(missing)?.paths.get_or_insert_default(), nth)?.path.clear();
            }
        }
    }
    for (key, to) in [("node_pool", &mut out.node_pools), ("host_volume", &mut out.host_volumes)] {
        for (index, block) in blocks(items, key).iter().enumerate() {
            if block.keys.len() == 1 {
                at(to.get_or_insert_default(), index)?.name.clear();
            }
        }
    }
    Ok(())
}

fn at<T>(rows: &mut [T], index: usize) -> Result<&mut T, String> {
    let length = rows.len();
    rows.get_mut(index).ok_or_else(|| out_of_range(index, length))
}
