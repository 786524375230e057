//! Progress of a pull: what the engine says of each layer, as one text. Pure.

use std::collections::BTreeMap;
use std::fmt;

use bollard::models::CreateImageInfo;

/// Words of the engine for a layer that is here.
const DONE: &[&str] = &["Pull complete", "Already exists"];

/// Progress of a pull by layer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Progress(BTreeMap<String, Layer>);

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Layer {
    done: bool,
    bytes: u64,
    bytes_total: u64,
}

impl Progress {
    /// Notes a message of the engine.
    pub fn note(&mut self, step: &CreateImageInfo) {
        let (Some(id), Some(status)) = (&step.id, &step.status) else { return };
        // The first message has the tag in place of a layer.
        if status.starts_with("Pulling from") {
            return;
        }
        let layer = self.0.entry(id.clone()).or_default();
        layer.done |= DONE.contains(&status.as_str());
        if let (Some(detail), "Downloading") = (&step.progress_detail, status.as_str()) {
            let bytes = |told: Option<i64>| told.and_then(|n| u64::try_from(n).ok()).unwrap_or(0);
            (layer.bytes, layer.bytes_total) = (bytes(detail.current), bytes(detail.total));
        }
    }
}

impl fmt::Display for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let done = self.0.values().filter(|layer| layer.done).count();
        write!(f, "Pulled {done}/{} layers", self.0.len())?;
        let loading = || self.0.values().filter(|layer| !layer.done && layer.bytes_total > 0);
        let sum = |of: fn(&Layer) -> u64| loading().map(of).sum::<u64>() >> 20;
        match loading().count() {
            0 => Ok(()),
            n => write!(f, ", {n} loading: {} of {} MiB", sum(|layer| layer.bytes), sum(|layer| layer.bytes_total)),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn progress_counts_layers_and_bytes() {
        let mut progress = Progress::default();
        let mut story = Vec::new();
        for step in [
            json!({"status": "Pulling from library/redis", "id": "7"}),
            json!({"status": "Pulling fs layer", "progressDetail": {}, "id": "a"}),
            json!({"status": "Already exists", "progressDetail": {}, "id": "b"}),
            json!({"status": "Downloading", "progressDetail": {"current": 3145728, "total": 9437184}, "id": "a"}),
            json!({"status": "Pull complete", "progressDetail": {}, "id": "a"}),
            json!({"status": "Digest: sha256:00"}),
        ] {
            progress.note(&serde_json::from_value(step).expect("a message"));
            story.push(progress.to_string());
        }
        expect_test::expect![[r#"
            Pulled 0/0 layers
            Pulled 0/1 layers
            Pulled 1/2 layers
            Pulled 1/2 layers, 1 loading: 3 of 9 MiB
            Pulled 2/2 layers
            Pulled 2/2 layers"#]]
        .assert_eq(&story.join("\n"));
    }
}
