//! The OpenAPI document: the router's routes with their parameters and shapes from `openapi/*.txt`.
//!
//! Tests over recorded conversations show that the shapes are those of the answers.

pub mod shape;
pub mod table;

use std::collections::BTreeMap;
use std::sync::LazyLock;

use axum::http::Method;
use serde_json::{Map, Value, json};

use crate::http::answered_by::AnsweredBy;
use crate::http::capability::Capability;
use crate::http::mux::{Methods, RouteInfo};
use shape::{Shape, Shapes};
use table::{Reply, Row, Sent, Std, Table};

/// Methods that `any method` stands for in the document.
const ANY: [Method; 4] = [Method::GET, Method::PUT, Method::POST, Method::DELETE];

static TABLE: LazyLock<Table> = LazyLock::new(|| {
    Table::parse(include_str!("openapi/reference.txt"), include_str!("openapi/ours.txt"))
        .expect("a test reads both files")
});
static SHAPES: LazyLock<Shapes> =
    LazyLock::new(|| Shapes::parse(include_str!("openapi/types.txt")).expect("a test reads the file"));

/// The table of parameters and shapes by route.
pub fn table() -> &'static Table {
    &TABLE
}

/// All named shapes.
pub fn shapes() -> &'static Shapes {
    &SHAPES
}

/// The OpenAPI document of these routes.
pub fn document(version: &str, routes: &[RouteInfo]) -> Value {
    let mut paths: BTreeMap<String, Map<String, Value>> = BTreeMap::new();
    let mut shapes = Vec::new();
    for route in routes {
        for row in TABLE.of(&route.path) {
            for method in methods_of(row).iter().filter(|method| route.methods.takes(method)) {
                let slot = paths.entry(row.path.clone()).or_default();
                // Catch-all routes come last in the router and must not replace the routes before them.
                let word = method.as_str().to_lowercase();
                if !slot.contains_key(&word) {
                    slot.insert(word, operation(route, row, method, &mut shapes));
                }
            }
        }
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Songline",
            "version": version,
            "description": "Names in bodies that are sent match whatever their case, unknown ones are ignored, null is absent. An error is its bare text.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "security": [{}, {"token": []}, {"bearer": []}],
        "paths": paths,
        "components": {
            "securitySchemes": {
                "token": {"type": "apiKey", "in": "header", "name": "X-Nomad-Token"},
                "bearer": {"type": "http", "scheme": "bearer"},
            },
            "parameters": shared_parameters(),
            "headers": {
                "Index": {"description": "Index of the answer: what the next blocking query waits for.", "schema": Shape::Uint.schema()},
                "KnownLeader": {"description": "Whether a leader is known.", "schema": {"enum": ["true", "false"]}},
                "LastContact": {"description": "Milliseconds since the leader was heard of.", "schema": Shape::Uint.schema()},
                "NextToken": {"description": "Where the next page starts; absent on the last one.", "schema": Shape::Str.schema()},
            },
            "responses": {
                "Error": {"description": "What is wrong, as a bare text.", "content": {"text/plain": {"schema": Shape::Str.schema()}}},
            },
            "schemas": SHAPES.components(&shapes),
        },
    })
}

/// Routes of the router that the table lacks, and routes of the table that the router lacks.
pub fn differences(routes: &[RouteInfo]) -> (Vec<String>, Vec<String>) {
    let unknown = routes.iter().filter(|route| {
        let line = format!("{} {}", route.path, route.methods.as_str());
        let known = TABLE.of(&route.path).any(|row| methods_of(row).iter().any(|method| route.methods.takes(method)));
        !TABLE.refusals.contains(&line) && !known
    });
    let unknown = unknown.map(|route| format!("{} {}", route.methods.as_str(), route.path)).collect();
    let mut missing = Vec::new();
    for row in &TABLE.rows {
        for method in methods_of(row) {
            let routed = routes.iter().any(|route| {
                let refuses = TABLE.refusals.contains(&format!("{} {}", route.path, route.methods.as_str()));
                !refuses && route.methods.takes(method) && TABLE.of(&route.path).any(|known| known == row)
            });
            if !routed {
                missing.push(format!("{method} {}", row.path));
            }
        }
    }
    missing.sort();
    (unknown, missing)
}

/// A route for every row of the table, whether the router has it or not.
pub fn whole_table() -> Vec<RouteInfo> {
    let route = |row: &Row| {
        methods_of(row)
            .iter()
            .map(|method| RouteInfo {
                methods: match *method {
                    Method::GET => Methods::Get,
                    Method::PUT => Methods::Put,
                    Method::POST => Methods::Post,
                    Method::DELETE => Methods::Delete,
                    _ => Methods::Any,
                },
                path: table::unnamed(&row.path),
                capability: Capability::Anyone,
                answered_by: AnsweredBy::Leader,
            })
            .collect::<Vec<_>>()
    };
    TABLE.rows.iter().flat_map(route).collect()
}

fn methods_of(row: &Row) -> &[Method] {
    if row.methods.is_empty() { &ANY } else { &row.methods }
}

fn operation(route: &RouteInfo, row: &Row, method: &Method, shapes: &mut Vec<Shape>) -> Value {
    let words =
        row.path.split(['/', '{', '}', '.']).filter(|word| !word.is_empty() && *word != "v1").collect::<Vec<_>>();
    let mut out = json!({
        "operationId": format!("{}-{}", method.as_str().to_lowercase(), words.join("-")),
        "tags": [words.first().unwrap_or(&"root")],
        "x-capability": route.capability.to_string(),
        "parameters": parameters(row, method),
    });
    match &row.sent {
        Sent::Nothing => {}
        Sent::Json(shape, required) => {
            shapes.push(shape.clone());
            out["requestBody"] =
                json!({"required": required, "content": {"application/json": {"schema": shape.schema()}}});
        }
        Sent::Bytes => out["requestBody"] = json!({"required": true, "content": {"application/octet-stream": {}}}),
    }
    out["responses"] = responses(row, shapes);
    out
}

fn responses(row: &Row, shapes: &mut Vec<Shape>) -> Value {
    let json_stream = |name: &str, shapes: &mut Vec<Shape>| {
        let shape = Shape::Named(name.to_owned(), false);
        shapes.push(shape.clone());
        json!({"description": "Objects without end, of this shape each.", "content": {"application/json": {"schema": shape.schema()}}})
    };
    let (status, mut answer) = match &row.reply {
        Reply::Json(shape) => {
            shapes.push(shape.clone());
            ("200", json!({"description": "The answer.", "content": {"application/json": {"schema": shape.schema()}}}))
        }
        Reply::Empty => ("200", json!({"description": "Done; there is nothing to say."})),
        Reply::Bytes => ("200", json!({"description": "Bytes.", "content": {"application/octet-stream": {}}})),
        Reply::Frames => ("200", json_stream("StreamFrame", shapes)),
        Reply::Events => ("200", json_stream("Events", shapes)),
        Reply::Websocket => ("101", json!({"description": "A websocket."})),
        Reply::Status(status) => {
            return json!({status.to_string(): {"description": "Always."}, "default": {"$ref": "#/components/responses/Error"}});
        }
    };
    let header = |name: &str| json!({"$ref": format!("#/components/headers/{name}")});
    let mut headers = Map::new();
    if row.flags.contains('B') {
        headers.insert("X-Nomad-Index".to_owned(), header("Index"));
        headers.insert("X-Nomad-KnownLeader".to_owned(), header("KnownLeader"));
        headers.insert("X-Nomad-LastContact".to_owned(), header("LastContact"));
    }
    if row.flags.contains('P') {
        headers.insert("X-Nomad-NextToken".to_owned(), header("NextToken"));
    }
    if !headers.is_empty() {
        answer["headers"] = Value::Object(headers);
    }
    json!({status: answer, "default": {"$ref": "#/components/responses/Error"}})
}

fn parameters(row: &Row, method: &Method) -> Vec<Value> {
    let path = table::names(&row.path)
        .map(|name| json!({"name": name, "in": "path", "required": true, "schema": Shape::Str.schema()}));
    let own = row.query.iter().map(|param| {
        let schema =
            if param.repeated { json!({"type": "array", "items": param.shape.schema()}) } else { param.shape.schema() };
        json!({"name": param.name, "in": "query", "required": param.required, "schema": schema})
    });
    let mut shared: Vec<&str> = Vec::new();
    match row.std {
        Std::Read => shared.extend(["region", "namespace", "stale", "pretty"]),
        Std::Write => shared.extend(["region", "namespace", "idempotency_token", "Idempotency-Key", "pretty"]),
        Std::None => {}
    }
    for (flag, names) in [
        ('B', &["index", "wait"][..]),
        ('P', &["per_page", "next_token"]),
        ('F', &["filter"]),
        ('X', &["prefix"]),
        ('R', &["reverse"]),
        ('S', &["X-Nomad-CSI-Secrets"]),
    ] {
        if row.flags.contains(flag) {
            shared.extend(names);
        }
    }
    if *method == Method::GET && row.flags.contains('B') {
        shared.extend(["at_index", "at_time"]);
    }
    let shared = shared.into_iter().map(|name| json!({"$ref": format!("#/components/parameters/{name}")}));
    path.chain(own).chain(shared).collect()
}

/// Parameters that many routes share: location, name, shape, description.
fn shared_parameters() -> Map<String, Value> {
    const ALL: [(&str, &str, &str, &str); 16] = [
        ("query", "region", "str", "Region; another than this agent's is refused."),
        ("query", "namespace", "str", "Namespace, `default` unless given; `*` is all of them in lists."),
        ("query", "stale", "str", "Any server may answer from what it has: empty, `true` or `false`."),
        ("query", "pretty", "str", "Indented, unless it is `0`."),
        ("query", "index", "uint", "Answer when the index is above this one; 0 does not wait."),
        ("query", "wait", "str", "How long to wait at most, such as `10s`; at most five minutes."),
        ("query", "per_page", "int", "Rows of a page; 0: all."),
        ("query", "next_token", "str", "Where the page starts: the token of the page before."),
        ("query", "filter", "str", "An expression over the fields of the stored object."),
        ("query", "prefix", "str", "What ids have to start with."),
        ("query", "reverse", "str", "`true`: newest first."),
        ("query", "at_index", "uint", "The state as it was at this index."),
        (
            "query",
            "at_time",
            "str",
            "The state as it was at this time: RFC 3339, or seconds or nanoseconds since 1970.",
        ),
        ("query", "idempotency_token", "str", "Makes a repeated dispatch answer with the first child."),
        ("header", "Idempotency-Key", "str", "Makes a repeated write run once."),
        ("header", "X-Nomad-CSI-Secrets", "str", "Secrets of a volume where there is no body: `k=v,k2=v2`."),
    ];
    let of = |(place, name, shape, about): (&str, &str, &str, &str)| {
        let schema = Shape::parse(shape).expect("written above").schema();
        (name.to_owned(), json!({"name": name, "in": place, "description": about, "schema": schema}))
    };
    ALL.into_iter().map(of).collect()
}
