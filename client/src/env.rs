//! The environment of a task (`NOMAD_*` and its own) and the interpolation of `${..}` in its part of a job file.
//! Pure: all inputs are arguments.

pub(crate) mod host;

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde_json::{Map, Value};
use songline_lang::interpolation::{self, Names};
use songline_model::{Allocation, Node, Secret, Str, Task, TaskGroup};

/// Paths of a task's directories, as the task sees them.
#[derive(Debug, Clone)]
pub struct TaskPaths {
    /// Directory shared by the tasks of the allocation.
    pub alloc: PathBuf,
    /// The task's own `local` directory.
    pub local: PathBuf,
    /// The task's secrets directory.
    pub secrets: PathBuf,
}

/// Sources of a task's environment.
pub struct Sources<'a> {
    /// The allocation.
    pub alloc: &'a Allocation,
    /// The task.
    pub task: &'a Task,
    /// The node that runs the task.
    pub node: &'a Node,
    /// The node's region.
    pub region: &'a str,
    /// The task's directories.
    pub paths: &'a TaskPaths,
    /// The agent's own environment, without the variables that tasks must not see.
    pub host: &'a BTreeMap<String, String>,
    /// The task's workload identity token, if it has one.
    pub token: Option<&'a Secret>,
    /// The task's token of Vault and Vault's namespace, if they are in its environment.
    pub vault: Option<(&'a Secret, &'a str)>,
}

/// A task's environment, and the values for interpolation.
#[derive(Debug, Clone, Default)]
pub struct TaskEnv {
    /// Environment variables of the process.
    pub vars: BTreeMap<String, String>,
    node: BTreeMap<String, String>,
}

/// Prefixes of variables in which characters unfit for a variable name are replaced.
const CLEANED: &[&str] = &["NOMAD_ADDR_", "NOMAD_IP_", "NOMAD_PORT_", "NOMAD_HOST_PORT_", "NOMAD_META_"];

impl TaskEnv {
    /// Builds the environment. Later sources override earlier ones: identity and ports, meta, the host's variables
    /// where still unset, the task's own.
    pub fn build(from: &Sources<'_>) -> Self {
        let mut env = TaskEnv { vars: BTreeMap::new(), node: node_names(from.node, from.region) };
        env.identity(from);
        env.limits(from);
        env.ports(from.alloc, from.task);
        if let Some(group) = from.alloc.group() {
            env.meta(from.alloc, group, from.task);
        }
        if let Some(token) = from.token {
            env.set("NOMAD_TOKEN", token.reveal());
        }
        if let Some((token, namespace)) = from.vault {
            env.set("VAULT_TOKEN", token.reveal());
            env.set("VAULT_NAMESPACE", namespace);
        }
        for (key, value) in from.host {
            env.vars.entry(key.clone()).or_insert_with(|| value.clone());
        }
        for (key, value) in from.task.env.iter().flatten() {
            let (key, value) = (env.replace(key), env.replace(value));
            env.vars.insert(key, value);
        }
        env.clean();
        env
    }

    fn set(&mut self, key: &str, value: impl AsRef<str>) {
        if !value.as_ref().is_empty() {
            self.vars.insert(key.to_owned(), value.as_ref().to_owned());
        }
    }

    fn identity(&mut self, from: &Sources<'_>) {
        let alloc = from.alloc;
        let id = alloc.id.to_string();
        self.set("NOMAD_ALLOC_DIR", from.paths.alloc.to_string_lossy());
        self.set("NOMAD_TASK_DIR", from.paths.local.to_string_lossy());
        self.set("NOMAD_SECRETS_DIR", from.paths.secrets.to_string_lossy());
        self.set("NOMAD_SHORT_ALLOC_ID", id.get(..8).unwrap_or_default());
        self.set("NOMAD_ALLOC_ID", id);
        self.set("NOMAD_ALLOC_NAME", &alloc.name);
        self.set("NOMAD_ALLOC_INDEX", alloc.name_index().map(|index| index.to_string()).unwrap_or_default());
        self.set("NOMAD_TASK_NAME", &from.task.name);
        self.set("NOMAD_GROUP_NAME", &alloc.task_group);
        self.set("NOMAD_JOB_ID", &*alloc.job_id);
        self.set("NOMAD_NAMESPACE", &*alloc.namespace);
        if let Some(job) = &alloc.job {
            self.set("NOMAD_JOB_NAME", &job.name);
            self.set("NOMAD_JOB_PARENT_ID", &*job.parent_id);
        }
        self.set("NOMAD_DC", &from.node.datacenter);
        self.set("NOMAD_REGION", from.region);
        self.set("NOMAD_PARENT_CGROUP", &from.node.cgroup_parent);
    }

    fn limits(&mut self, from: &Sources<'_>) {
        let resources =
            from.alloc.allocated_resources.as_ref().and_then(|all| all.tasks.as_ref()?.get(&from.task.name));
        let Some(resources) = resources else { return };
        let number = |n: i64| if n == 0 { String::new() } else { n.to_string() };
        self.set("NOMAD_MEMORY_LIMIT", number(resources.memory.memory_mb));
        self.set("NOMAD_MEMORY_MAX_LIMIT", number(resources.memory.memory_max_mb));
        self.set("NOMAD_CPU_LIMIT", number(resources.cpu.cpu_shares));
        let cores: Vec<String> = resources.cpu.reserved_cores.iter().flatten().map(u64::to_string).collect();
        self.set("NOMAD_CPU_CORES", cores.join(","));
    }

    fn ports(&mut self, alloc: &Allocation, task: &Task) {
        let Some(resources) = alloc.allocated_resources.clone() else { return };
        for port in resources.shared.ports.iter().flatten() {
            self.port("", &port.label, &port.host_ip, port.value, port.to);
        }
        // Ports of a task's own network, a form of old jobs: without a prefix for the task itself, with one for the
        // others.
        for (name, task_resources) in resources.tasks.iter().flatten() {
            let prefix = if *name == task.name { String::new() } else { format!("{name}_") };
            for network in task_resources.networks.iter().flatten() {
                for port in network.reserved_ports.iter().flatten().chain(network.dynamic_ports.iter().flatten()) {
                    self.port(&prefix, &port.label, &network.ip, port.value, port.to);
                }
            }
        }
    }

    fn port(&mut self, prefix: &str, label: &str, ip: &str, value: i64, to: i64) {
        let label = format!("{prefix}{label}");
        let inside = if to > 0 { to } else { value };
        let address = if ip.contains(':') { format!("[{ip}]:{value}") } else { format!("{ip}:{value}") };
        self.set(&format!("NOMAD_IP_{label}"), ip);
        self.set(&format!("NOMAD_HOST_IP_{label}"), ip);
        self.set(&format!("NOMAD_ADDR_{label}"), &address);
        self.set(&format!("NOMAD_HOST_ADDR_{label}"), &address);
        self.set(&format!("NOMAD_PORT_{label}"), inside.to_string());
        self.set(&format!("NOMAD_ALLOC_PORT_{label}"), inside.to_string());
        self.set(&format!("NOMAD_HOST_PORT_{label}"), value.to_string());
    }

    fn meta(&mut self, alloc: &Allocation, group: &TaskGroup, task: &Task) {
        let mut meta: BTreeMap<&Str, &Str> = BTreeMap::new();
        let job = alloc.job.as_deref();
        let optional =
            job.filter(|job| job.dispatched).and_then(|job| job.parameterized_job.as_ref()?.meta_optional.as_ref());
        let empty = Str::default();
        meta.extend(optional.into_iter().flatten().map(|key| (key, &empty)));
        meta.extend(job.and_then(|job| job.meta.as_ref()).into_iter().flatten());
        meta.extend(group.meta.iter().flatten());
        meta.extend(task.meta.iter().flatten());
        for (key, value) in meta {
            let value = self.replace(value);
            self.vars.insert(format!("NOMAD_META_{}", key.to_uppercase()), value.clone());
            self.vars.insert(format!("NOMAD_META_{key}"), value);
        }
    }

    /// Replaces characters in names that could not be variables of a shell.
    fn clean(&mut self) {
        self.vars = std::mem::take(&mut self.vars)
            .into_iter()
            .map(|(key, value)| {
                let cleaned = CLEANED.iter().any(|prefix| key.starts_with(prefix));
                let key = if cleaned {
                    key.replace(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == '.'), "_")
                } else {
                    key
                };
                (key, value)
            })
            .collect();
    }

    /// Replaces every known `${name}`; unknown ones, and `$${name}`, stay as they are. Other forms, such as
    /// `${env["name"]}`, are for the `config` block of drivers only.
    pub fn replace(&self, text: &str) -> String {
        let (mut out, mut rest) = (String::with_capacity(text.len()), text);
        while let Some(at) = rest.find("${") {
            let (before, inner) = (&rest[..at], &rest[at + 2..]);
            let name = inner.split_once('}').map(|(name, _)| name);
            let name = name.filter(|name| is_reference(name) && !before.ends_with('$'));
            out.push_str(before);
            match name.map(|name| (name, self.named(name))) {
                Some((name, Some(value))) => {
                    out.push_str(value);
                    rest = &inner[name.len() + 1..];
                }
                Some((_, None)) | None => {
                    out.push_str("${");
                    rest = inner;
                }
            }
        }
        out.push_str(rest);
        out
    }

    /// Value of a name: a variable, or else of the node.
    fn named(&self, name: &str) -> Option<&str> {
        self.vars.get(name).or_else(|| self.node.get(name)).map(String::as_str)
    }

    /// Value of a name in a driver's `config` block.
    fn lookup(&self, name: &str) -> Option<&str> {
        let quoted = name.strip_prefix("env[\"").and_then(|name| name.strip_suffix("\"]"));
        self.named(quoted.or_else(|| name.strip_prefix("env.")).unwrap_or(name))
    }

    /// Evaluates the templates of a driver's `config` block. The error lists the faults.
    pub fn evaluate_config(&self, config: &BTreeMap<Str, Value>) -> Result<Map<String, Value>, Vec<String>> {
        let mut templates = Templates { env: self, names: None, faults: Vec::new() };
        let evaluated = config.iter().map(|(key, value)| (key.to_string(), templates.value(value))).collect();
        if templates.faults.is_empty() { Ok(evaluated) } else { Err(templates.faults) }
    }

    /// Replaces the interpolations of a text that has no other syntax of templates than known names in `${..}`.
    fn replace_names(&self, text: &str) -> Option<String> {
        if text.contains("%{") || text.contains("$${") {
            return None;
        }
        let (mut out, mut rest) = (String::with_capacity(text.len()), text);
        while let Some(at) = rest.find("${") {
            let end = at + rest[at..].find('}')?;
            out.push_str(&rest[..at]);
            out.push_str(self.lookup(rest[at + 2..end].trim())?);
            rest = &rest[end + 1..];
        }
        out.push_str(rest);
        Some(out)
    }
}

/// Whether a text can be a name in `${..}` outside of `config` blocks.
fn is_reference(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-'))
}

/// Evaluation of the templates of one `config` block.
struct Templates<'a> {
    env: &'a TaskEnv,
    /// Names of the language's objects, built when a template needs them: most blocks have only plain interpolations.
    names: Option<Names>,
    faults: Vec<String>,
}

impl Templates<'_> {
    fn value(&mut self, value: &Value) -> Value {
        match value {
            Value::String(text) => self.text(text),
            Value::Array(items) => Value::Array(items.iter().map(|item| self.value(item)).collect()),
            Value::Object(fields) => {
                Value::Object(fields.iter().map(|(key, field)| (key.clone(), self.value(field))).collect())
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
        }
    }

    fn text(&mut self, text: &str) -> Value {
        // A name such as `driver.docker` may be a text although `driver.docker.version` makes it an object as well.
        if let Some(replaced) = self.env.replace_names(text) {
            return Value::String(replaced);
        }
        let names = self.names.get_or_insert_with(|| {
            let of_task =
                self.env.vars.iter().flat_map(|(name, text)| [(name.clone(), text), (format!("env.{name}"), text)]);
            let of_node = self.env.node.iter().map(|(name, text)| (name.clone(), text));
            let all: Vec<(String, &String)> = of_node.chain(of_task).collect();
            Names::new(all.iter().map(|(name, text)| (name.as_str(), text.as_str())))
        });
        interpolation::evaluate(text, names).unwrap_or_else(|faults| {
            self.faults.extend(faults);
            Value::Null
        })
    }
}

/// Values of `${node..}`, `${attr..}` and `${meta..}`. `${node.pool}` is for constraints only.
fn node_names(node: &Node, region: &str) -> BTreeMap<String, String> {
    let mut names = BTreeMap::from([
        ("node.unique.id".to_owned(), node.id.to_string()),
        ("node.unique.name".to_owned(), node.name.to_string()),
        ("node.datacenter".to_owned(), node.datacenter.to_string()),
        ("node.region".to_owned(), region.to_owned()),
        ("node.class".to_owned(), node.node_class.to_string()),
    ]);
    let attributes = node.attributes.iter().flat_map(|attributes| attributes.iter());
    names.extend(attributes.map(|(key, value)| (format!("attr.{key}"), value.to_string())));
    names.extend(node.meta.iter().flatten().map(|(key, value)| (format!("meta.{key}"), value.to_string())));
    names
}

#[cfg(test)]
mod tests;
