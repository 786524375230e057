//! Rows of an export: one event with the columns of the usual questions.

use chrono::DateTime;
use serde_json::{Map, Value, json};

use super::entries::Entry;
use crate::client::text;

/// Name of the partition of events whose entry the log no longer has. Readers of hive partitions take it for null.
const NO_DAY: &str = "__HIVE_DEFAULT_PARTITION__";

/// Columns of text, in the order of the files. `index`, `time` and `deleted` stand before them. The topic is the first.
pub(super) const TEXTS: [&str; 15] = [
    "topic",
    "type",
    "key",
    "namespace",
    "job_id",
    "task_group",
    "alloc_id",
    "node_id",
    "eval_id",
    "deployment_id",
    "actor",
    "status",
    "client_status",
    "description",
    "payload",
];

/// Fields of rows that a column shows: the first that is not empty.
const FIELDS: [(&str, &[&str]); 9] = [
    ("job_id", &["JobID"]),
    ("task_group", &["TaskGroup"]),
    ("alloc_id", &["AllocID"]),
    ("node_id", &["NodeID"]),
    ("eval_id", &["EvalID"]),
    ("deployment_id", &["DeploymentID"]),
    ("status", &["Status", "DesiredStatus"]),
    ("client_status", &["ClientStatus"]),
    ("description", &["StatusDescription", "ClientDescription", "DesiredDescription", "Description"]),
];

/// Columns that hold the key of a topic's events.
const KEYS: [(&str, &str); 6] = [
    ("Allocation", "alloc_id"),
    ("Deployment", "deployment_id"),
    ("Evaluation", "eval_id"),
    ("Job", "job_id"),
    ("Node", "node_id"),
    ("ScalingEvent", "job_id"),
];

/// One event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) index: u64,
    /// Microseconds since 1970. `None`: the log no longer has the entry.
    pub(super) time_us: Option<i64>,
    pub(super) deleted: bool,
    /// Values of [`TEXTS`]; an empty text is `None`.
    pub(super) texts: [Option<String>; TEXTS.len()],
}

impl Row {
    /// The row of an event of the entry at `index`.
    pub(super) fn of(index: u64, event: &Value, entry: Option<&Entry>) -> Self {
        let payload = &event["Payload"];
        let object = payload.as_object().into_iter().flatten().map(|(_, value)| value).find(|value| value.is_object());
        let topic = text(&event["Topic"]);
        let value = |column: &str| -> String {
            let of_event = match column {
                "topic" => topic,
                "type" => text(&event["Type"]),
                "key" => text(&event["Key"]),
                "namespace" => text(&event["Namespace"]),
                "actor" => entry.map_or("", |entry| &entry.actor),
                "payload" => return payload.to_string(),
                _ if KEYS.contains(&(topic, column)) => text(&event["Key"]),
                _ => "",
            };
            if of_event.is_empty() { field(object, column).to_owned() } else { of_event.to_owned() }
        };
        let texts = TEXTS.map(|column| Some(value(column)).filter(|text| !text.is_empty()));
        let deleted = payload["Deleted"] == true;
        Self { index, time_us: entry.map(|entry| entry.time_us), deleted, texts }
    }

    /// The event's topic.
    pub(super) fn topic(&self) -> &str {
        self.texts[0].as_deref().unwrap_or_default()
    }

    /// About the memory that the row takes, in bytes.
    pub(super) fn bytes(&self) -> usize {
        size_of::<Self>() + self.texts.iter().flatten().map(String::len).sum::<usize>()
    }

    /// The row as one JSON object.
    pub(super) fn json(&self) -> Value {
        let mut object = Map::new();
        object.insert("index".to_owned(), json!(self.index));
        object.insert("time".to_owned(), json!(self.time_us.and_then(written)));
        object.insert("deleted".to_owned(), json!(self.deleted));
        for (column, value) in TEXTS.iter().zip(&self.texts) {
            object.insert((*column).to_owned(), json!(value));
        }
        Value::Object(object)
    }
}

/// A field of the event's object, empty if it has none for the column.
fn field<'v>(object: Option<&'v Value>, column: &str) -> &'v str {
    let Some(object) = object else { return "" };
    let fields = FIELDS.iter().filter(|(of, _)| *of == column).flat_map(|(_, fields)| fields.iter());
    fields.map(|field| text(&object[*field])).find(|value| !value.is_empty()).unwrap_or_default()
}

/// RFC 3339 in UTC with six digits of a second.
fn written(time_us: i64) -> Option<String> {
    Some(DateTime::from_timestamp_micros(time_us)?.format("%Y-%m-%dT%H:%M:%S%.6fZ").to_string())
}

/// The day in UTC, as the name of a partition.
pub(super) fn day(time_us: Option<i64>) -> String {
    let day = time_us.and_then(DateTime::from_timestamp_micros).map(|time| time.format("%Y-%m-%d").to_string());
    day.unwrap_or_else(|| NO_DAY.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The columns of an event that are not empty, without its payload.
    fn shown(event: &Value) -> String {
        let entry = Entry { time_us: 1_700_000_000_000_001, actor: "anonymous".to_owned() };
        let row = Row::of(7, event, Some(&entry)).json();
        let mut shown = Vec::new();
        for (column, value) in row.as_object().into_iter().flatten() {
            if column != "payload" && !value.is_null() {
                shown.push(format!("{column}={}", value.as_str().map_or_else(|| value.to_string(), str::to_owned)));
            }
        }
        shown.join(" ")
    }

    #[test]
    fn allocations_fill_the_columns_of_their_ids_and_statuses() {
        let event = json!({ "Topic": "Allocation", "Type": "PlanResult", "Key": "a1", "Namespace": "default",
            "Payload": { "Allocation": { "ID": "a1", "JobID": "web", "TaskGroup": "g", "NodeID": "n1", "EvalID": "e1",
                "DeploymentID": "", "DesiredStatus": "run", "ClientStatus": "pending", "DesiredDescription": "why" } } });
        let expected = "index=7 time=2023-11-14T22:13:20.000001Z deleted=false topic=Allocation type=PlanResult key=a1 \
             namespace=default job_id=web task_group=g alloc_id=a1 node_id=n1 eval_id=e1 actor=anonymous status=run \
             client_status=pending description=why";
        assert_eq!(shown(&event), expected);
    }

    #[test]
    fn deleted_objects_and_objects_without_columns_have_key_and_payload() {
        let event = json!({ "Topic": "Job", "Type": "JobDeregistered", "Key": "web", "Namespace": "default",
            "Payload": { "Job": { "ID": "web", "Status": "dead" }, "Deleted": true } });
        let expected = "index=7 time=2023-11-14T22:13:20.000001Z deleted=true topic=Job type=JobDeregistered key=web \
             namespace=default job_id=web actor=anonymous status=dead";
        assert_eq!(shown(&event), expected);
        let event =
            json!({ "Topic": "RootKey", "Type": "RootKeyUpserted", "Key": "k", "Namespace": "", "Payload": {} });
        let row = Row::of(1, &event, None);
        assert_eq!((row.time_us, row.texts[14].as_deref()), (None, Some("{}")));
    }

    #[test]
    fn days_are_those_of_utc_and_unknown_times_have_the_null_partition() {
        assert_eq!(day(Some(86_400_000_000 - 1)), "1970-01-01");
        assert_eq!(day(Some(86_400_000_000)), "1970-01-02");
        assert_eq!(day(None), "__HIVE_DEFAULT_PARTITION__");
    }
}
