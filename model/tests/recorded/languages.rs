//! The little languages that jobs hold, as far as the recordings use them, and the view that jobs are judged by.

use songline_model::{AdmitContext, Languages, Namespace, NamespaceCapabilities, spec};

struct Recorded;

impl Languages for Recorded {
    fn cron(&self, spec: &str) -> Result<(), String> {
        if spec.starts_with('@') || spec.split_whitespace().count() >= 5 {
            Ok(())
        } else {
            Err("missing field(s)".into())
        }
    }

    fn time_zone(&self, name: &str) -> Result<(), String> {
        if name.starts_with("Mars") { Err(format!("unknown time zone {name}")) } else { Ok(()) }
    }

    fn version_constraint(&self, _: &str, _: bool) -> Result<(), String> {
        Ok(())
    }

    fn regexp(&self, _: &str) -> Result<(), String> {
        Ok(())
    }
}

/// Calls `judge` with the view of an agent as the recordings expect it.
pub fn context_for<T>(job: &spec::Job, judge: impl FnOnce(&AdmitContext<'_>) -> T) -> T {
    let name = job.namespace.as_deref().unwrap_or("default");
    let names = |list: &[&str]| Some(list.iter().map(|name| (*name).into()).collect());
    let namespace = Namespace {
        name: name.into(),
        capabilities: (name == "jobs-rules").then(|| NamespaceCapabilities {
            enabled_task_drivers: names(&["mock_driver", "exec"]),
            disabled_task_drivers: names(&["raw_exec"]),
        }),
        ..Default::default()
    };
    judge(&AdmitContext {
        languages: &Recorded,
        namespace: (!name.ends_with("nowhere")).then_some(&namespace),
        node_pool_exists: &|pool| !(pool.ends_with("nowhere") || pool.ends_with("nopool") || pool.contains("no-such")),
        job_priority_max: 100,
        vault_enabled: false,
        memory_oversubscription: false,
    })
}
