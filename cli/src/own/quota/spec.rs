//! Files with quotas: HCL, or JSON in the form of the HTTP API.

use std::path::PathBuf;

use anyhow::{Context, bail};
use serde_json::{Map, Value, json};

use crate::exit::Failure;

const EXAMPLE: &str = r#"name        = "default-quota"
description = "Limits of the default namespace"

# The limits in one region; other regions have blocks of their own. 0 is no limit, -1 allows nothing.
limit {
  region = "global"

  region_limit {
    cpu        = 2500
    cores      = 0
    memory     = 1000
    memory_max = 1000

    device "nvidia/gpu/1080ti" {
      count = 1
    }
  }

  # MiB of all variables.
  variables_limit = 1000

  # Number of allocations.
  allocations_limit = 0
}
"#;

/// Writes the example. An existing file is left alone.
pub(super) fn init(json: bool, file: Option<PathBuf>) -> anyhow::Result<()> {
    let file = file.unwrap_or_else(|| PathBuf::from(if json { "spec.json" } else { "spec.hcl" }));
    if file.exists() {
        bail!(Failure::new(format!("Quota specification {:?} already exists", file.display().to_string())));
    }
    let text = if json { serde_json::to_string_pretty(&from_hcl(EXAMPLE)?)? + "\n" } else { EXAMPLE.to_owned() };
    std::fs::write(&file, text).with_context(|| format!("writing {}", file.display()))?;
    crate::outln!("Example quota specification written to {}", file.display());
    Ok(())
}

/// The body of the request from a file; `-` is the standard input.
pub(super) fn read(file: &str, json: bool) -> anyhow::Result<Value> {
    let source = crate::input::read(file)?;
    let quota = if json { serde_json::from_str(&source).map_err(Into::into) } else { from_hcl(&source) };
    quota.with_context(|| format!("reading {file}"))
}

fn from_hcl(source: &str) -> anyhow::Result<Value> {
    let document = songline_lang::config::parse(source)?;
    let root = Block::of(&document, "the file")?;
    root.knows(&["name", "description", "limit"])?;
    let limits: Vec<Value> =
        root.blocks("limit").map(|limit| Block::of(limit, "limit").and_then(of_limit)).collect::<Result<_, _>>()?;
    Ok(json!({ "Name": root.text("name")?, "Description": root.text("description")?, "Limits": limits }))
}

fn of_limit(limit: Block<'_>) -> anyhow::Result<Value> {
    limit.knows(&["region", "region_limit", "variables_limit", "allocations_limit"])?;
    let mut out = json!({
        "Region": limit.text("region")?,
        "VariablesLimit": limit.number("variables_limit")?,
        "AllocationsLimit": limit.number("allocations_limit")?,
    });
    for resources in limit.blocks("region_limit") {
        let resources = Block::of(resources, "region_limit")?;
        resources.knows(&["cpu", "cores", "memory", "memory_max", "device"])?;
        out["RegionLimit"] = json!({
            "CPU": resources.number("cpu")?,
            "Cores": resources.number("cores")?,
            "MemoryMB": resources.number("memory")?,
            "MemoryMaxMB": resources.number("memory_max")?,
            "Devices": devices(&resources)?,
        });
    }
    Ok(out)
}

/// The `device "NAME" { count = N }` blocks; without a count it is 1, as in jobs.
fn devices(resources: &Block<'_>) -> anyhow::Result<Vec<Value>> {
    let mut out = Vec::new();
    for labeled in resources.blocks("device") {
        for (name, bodies) in labeled.as_object().into_iter().flatten() {
            for body in bodies.as_array().into_iter().flatten() {
                let body = Block::of(body, "device")?;
                body.knows(&["count"])?;
                out.push(json!({ "Name": name, "Count": body.number("count")?.unwrap_or(1) }));
            }
        }
    }
    Ok(out)
}

/// One block of the document.
struct Block<'a> {
    keys: &'a Map<String, Value>,
    name: &'a str,
}

impl<'a> Block<'a> {
    fn of(value: &'a Value, name: &'a str) -> anyhow::Result<Self> {
        let keys = value.as_object().with_context(|| format!("{name} must be a block"))?;
        Ok(Self { keys, name })
    }

    fn knows(&self, known: &[&str]) -> anyhow::Result<()> {
        match self.keys.keys().find(|key| !known.contains(&key.as_str())) {
            Some(key) => bail!("{}: unknown key {key:?}", self.name),
            None => Ok(()),
        }
    }

    fn blocks(&self, key: &str) -> impl Iterator<Item = &'a Value> + use<'a> {
        let value = self.keys.get(key);
        let many = value.and_then(Value::as_array).into_iter().flatten();
        many.chain(value.filter(|value| value.is_object()))
    }

    fn text(&self, key: &str) -> anyhow::Result<&'a str> {
        match self.keys.get(key) {
            None => Ok(""),
            Some(value) => value.as_str().with_context(|| format!("{}: {key} must be a text", self.name)),
        }
    }

    fn number(&self, key: &str) -> anyhow::Result<Option<i64>> {
        let number = |value: &Value| value.as_i64().with_context(|| format!("{}: {key} must be a number", self.name));
        self.keys.get(key).map(number).transpose()
    }
}

#[cfg(test)]
mod tests {
    use super::{EXAMPLE, from_hcl};

    #[test]
    fn example_file_is_a_quota() {
        let quota = from_hcl(EXAMPLE).expect("reads");
        let expected = serde_json::json!({
            "Name": "default-quota",
            "Description": "Limits of the default namespace",
            "Limits": [{
                "Region": "global",
                "RegionLimit": {
                    "CPU": 2500, "Cores": 0, "MemoryMB": 1000, "MemoryMaxMB": 1000,
                    "Devices": [{ "Name": "nvidia/gpu/1080ti", "Count": 1 }],
                },
                "VariablesLimit": 1000,
                "AllocationsLimit": 0,
            }],
        });
        assert_eq!(quota, expected);
    }

    #[test]
    fn unknown_keys_and_wrong_types_are_refused() {
        for (text, why) in [
            ("nme = \"a\"", "the file: unknown key \"nme\""),
            ("name = 7", "the file: name must be a text"),
            ("limit { disk = 7 }", "limit: unknown key \"disk\""),
            ("limit { region_limit { cpu = \"many\" } }", "region_limit: cpu must be a number"),
        ] {
            assert_eq!(from_hcl(text).expect_err("is refused").to_string(), why, "{text}");
        }
    }
}
