//! Compares answers with an OpenAPI document: finds the operation of a request, and checks the shape of its answer.
//! Only the keywords that the document uses are supported.

use serde_json::Value;

/// A parsed document.
pub struct Document(Value);

/// A difference: an unknown request, or a value that does not fit.
pub type Fault = String;

impl Document {
    /// Creates a document from its JSON.
    pub fn new(document: Value) -> Self {
        Document(document)
    }

    /// The schema of an operation's JSON answer with this status; `None` when the document defines no JSON.
    pub fn schema(&self, method: &str, path: &str, status: u16) -> Result<Option<&Value>, Fault> {
        let (template, operation) = self.operation(method, path).ok_or("no operation of the document")?;
        let answer = operation["responses"]
            .get(status.to_string())
            .ok_or_else(|| format!("{template} has no answer {status}"))?;
        Ok(answer.pointer("/content/application~1json/schema"))
    }

    /// Whether a value fits a schema. `ignored` says whether a path, such as `$.a[0].b`, is deliberately left out.
    pub fn fit(&self, schema: &Value, value: &Value, ignored: &dyn Fn(&str) -> bool) -> Result<(), Fault> {
        let mut judge = Judge { document: &self.0, ignored, at: "$".to_owned() };
        let mut fault = None;
        judge.fits(schema, value, &mut fault);
        fault.map_or(Ok(()), Err)
    }

    /// The operation with the longest literal text in its path. An id may have slashes. Routes that accept every
    /// method are documented with the one that their clients use.
    fn operation(&self, method: &str, path: &str) -> Option<(&String, &Value)> {
        let slots =
            || self.0["paths"].as_object().into_iter().flatten().filter(|(template, _)| path_fits(template, path));
        let best = slots().map(|(template, _)| literal(template)).max()?;
        let mut operations = slots().filter(|(template, _)| literal(template) == best);
        let (template, slot) = operations.next()?;
        let one = slot
            .get(method.to_lowercase())
            .or_else(|| slot.as_object()?.values().next().filter(|_| takes_any(path)))?;
        Some((template, one))
    }
}

fn takes_any(path: &str) -> bool {
    let ends = ["/summary", "/versions", "/checks", "/stats", "/restart", "/gc", "/submission"];
    path.starts_with("/v1/client/")
        || path.starts_with("/v1/agent/keyring/")
        || ends.iter().any(|end| path.ends_with(end))
}

fn literal(template: &str) -> usize {
    template
        .split('{')
        .enumerate()
        .map(|(n, part)| if n == 0 { part.len() } else { part.split('}').nth(1).map_or(0, str::len) })
        .sum()
}

fn path_fits(template: &str, path: &str) -> bool {
    let Some((start, rest)) = template.split_once('{') else { return template == path };
    let Some(left) = path.strip_prefix(start) else { return false };
    let after = rest.split_once('}').map_or("", |(_, after)| after);
    if after.is_empty() {
        return true;
    }
    (0..=left.len()).filter(|at| left.is_char_boundary(*at)).any(|at| path_fits(after, &left[at..]))
}

/// Compares one body.
struct Judge<'d> {
    document: &'d Value,
    ignored: &'d dyn Fn(&str) -> bool,
    at: String,
}

impl Judge<'_> {
    fn below(&mut self, part: &str, schema: &Value, value: &Value, fault: &mut Option<Fault>) {
        let length = self.at.len();
        self.at.push_str(part);
        self.fits(schema, value, fault);
        self.at.truncate(length);
    }

    /// Whether a value fits a schema; reports the first place where it does not. Supports only the keywords that the
    /// document uses.
    fn fits(&mut self, schema: &Value, value: &Value, fault: &mut Option<Fault>) {
        let rules = schema.as_object().expect("a schema is an object");
        for (keyword, rule) in rules {
            if fault.is_some() {
                return;
            }
            match keyword.as_str() {
                "$ref" => {
                    let path =
                        rule.as_str().and_then(|path| path.strip_prefix('#')).expect("a reference into the document");
                    let document = self.document;
                    self.fits(document.pointer(path).expect("it leads somewhere"), value, fault);
                }
                "anyOf" => {
                    let mut faults = Vec::new();
                    for one in rule.as_array().expect("schemas") {
                        let mut inner = None;
                        self.fits(one, value, &mut inner);
                        faults.extend(inner);
                    }
                    if faults.len() == rule.as_array().map_or(0, Vec::len) {
                        *fault = Some(faults.join(", and "));
                    }
                }
                "type" => {
                    let is = kinds(value);
                    let allowed = |kind: &Value| is.iter().any(|is| kind == *is);
                    if !rule.as_array().map_or_else(|| allowed(rule), |kinds| kinds.iter().any(allowed)) {
                        *fault = Some(format!("{} is {value}, not {rule}", self.at));
                    }
                }
                "minimum" => {
                    if value.as_f64().is_some_and(|value| value < rule.as_f64().unwrap_or(f64::MIN)) {
                        *fault = Some(format!("{} is {value}", self.at));
                    }
                }
                "properties" => {
                    for (name, value) in value.as_object().into_iter().flatten() {
                        if let Some(schema) = rule.get(name) {
                            self.below(&format!(".{name}"), schema, value, fault);
                        }
                    }
                }
                "required" => {
                    let Some(object) = value.as_object() else { continue };
                    for name in rule
                        .as_array()
                        .expect("names")
                        .iter()
                        .filter_map(Value::as_str)
                        .filter(|name| !object.contains_key(*name))
                    {
                        let missing = format!("{}.{name}", self.at);
                        if !(self.ignored)(&missing) {
                            *fault = Some(format!("{missing} is missing"));
                        }
                    }
                }
                "additionalProperties" => {
                    let known = rules.get("properties");
                    for (name, value) in value.as_object().into_iter().flatten() {
                        if known.is_some_and(|known| known.get(name).is_some()) {
                            continue;
                        }
                        if *rule == Value::Bool(false) {
                            *fault = Some(format!("{} has {name}", self.at));
                        } else {
                            self.below(&format!(".{name}"), rule, value, fault);
                        }
                    }
                }
                "items" => {
                    for (n, value) in value.as_array().into_iter().flatten().enumerate() {
                        self.below(&format!("[{n}]"), rule, value, fault);
                    }
                }
                "description" | "format" | "contentEncoding" => {}
                other => panic!("the document uses `{other}`, which nobody checks"),
            }
        }
    }
}

/// Types of a value, in the words of schemas. A recorded token stands for values of its own types.
fn kinds(value: &Value) -> &'static [&'static str] {
    match value {
        Value::Null => &["null"],
        Value::Bool(_) => &["boolean"],
        Value::Number(number) if number.is_f64() => &["number"],
        Value::Number(_) => &["integer", "number"],
        Value::String(text) => token_kinds(text).unwrap_or(&["string"]),
        Value::Array(_) => &["array"],
        Value::Object(_) => &["object"],
    }
}

/// Types that a recorded value may stand for when it is a token.
fn token_kinds(text: &str) -> Option<&'static [&'static str]> {
    let token =
        text.strip_prefix('<').and_then(|rest| rest.strip_suffix('>')).filter(|token| !token.contains(['<', '>']))?;
    match token.split(':').next()? {
        "index" | "port" | "num" | "int" => Some(&["integer", "number"]),
        "time" => Some(&["integer", "number", "string"]),
        "any" => Some(&["integer", "number", "string", "boolean", "null", "object", "array"]),
        "uuid" | "text" | "ip" | "str" | "env" => Some(&["string"]),
        _ => None,
    }
}
