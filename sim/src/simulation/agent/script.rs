//! Behaviour of a task by its configuration for the mock driver. Not here: tasks that fail at random, which are in
//! `processes.rs`.

use std::time::Duration;

use songline_model::{Allocation, Str, Task};

/// How long a run lasts whose configuration has no duration.
const FOR_EVER: Duration = Duration::from_secs(365 * 24 * 3600);

/// One run of a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Script {
    /// Why the run does not start.
    pub start_error: Option<Str>,
    /// How long it lasts.
    pub runs_for: Duration,
    /// Its exit code when it is not stopped.
    pub exit_code: i64,
}

impl Script {
    /// Whether a run ends by itself.
    pub fn ends(&self) -> bool {
        self.runs_for < FOR_EVER
    }

    /// The script of a task of an allocation. Without the keys `start_error`, `run_for` and `exit_code` in its
    /// configuration, a task runs until it is stopped. A text may be a variable of the job's meta.
    pub fn of(alloc: &Allocation, task: &str) -> Self {
        let groups = alloc.job.iter().flat_map(|job| job.task_groups.iter().flatten());
        let tasks =
            groups.filter(|group| group.name == alloc.task_group).flat_map(|group| group.tasks.iter().flatten());
        let task = tasks.into_iter().find(|one| *one.name == *task);
        let text = |key| Some(interpolated(alloc, config(task, key)?.as_str()?));
        Self {
            start_error: text("start_error").filter(|error| !error.is_empty()),
            runs_for: text("run_for").and_then(|text| duration(&text)).unwrap_or(FOR_EVER),
            exit_code: config(task, "exit_code").and_then(serde_json::Value::as_i64).unwrap_or(0),
        }
    }
}

/// The text, or what the job's meta has in its place if it is `${NOMAD_META_key}`.
fn interpolated(alloc: &Allocation, text: &str) -> Str {
    let Some(key) = text.strip_prefix("${NOMAD_META_").and_then(|rest| rest.strip_suffix('}')) else {
        return Str::from(text);
    };
    let meta = alloc.job.as_ref().and_then(|job| job.meta.as_ref());
    meta.and_then(|meta| meta.get(key)).cloned().unwrap_or_default()
}

fn config<'a>(task: Option<&'a Task>, key: &str) -> Option<&'a serde_json::Value> {
    task?.config.as_ref()?.get(key)
}

/// Parses a duration of one number and one unit, such as `100ms` and `2h`.
fn duration(text: &str) -> Option<Duration> {
    let (number, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit())?);
    let unit_ms = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        _ => return None,
    };
    Some(Duration::from_millis(number.parse::<u64>().ok()?.checked_mul(unit_ms)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn duration_has_one_number_and_one_unit() {
        assert_eq!(duration("100ms"), Some(Duration::from_millis(100)));
        assert_eq!(duration("2h"), Some(Duration::from_secs(7200)));
        assert_eq!(duration("2"), None);
        assert_eq!(duration("1h2m"), None);
    }
}
