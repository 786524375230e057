//! Schemas of the blocks of a job file: allowed attributes and blocks, and the members of the job that they become.
//! `decode.rs` converts attributes; `special.rs` has blocks with special rules.

mod service;
mod task;

use serde_json::{Value as Json, json};
use songline_model::spec;

use super::Object;
use super::decode::{Decoder, Instance};
use super::special;
use crate::hcl::ast::Body;
use crate::hcl::eval::Scope;
use service::SERVICE;
pub(super) use task::{CSI_PLUGIN, TASK, TASK_SCALING, VAULT};

/// Allowed content of a body.
pub(super) struct Schema {
    pub(super) labels: &'static [&'static str],
    pub(super) fields: &'static [Field],
}

/// Type that an attribute is converted to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Text,
    Integer,
    /// An integer from -128 to 127.
    Small,
    Unsigned,
    /// An integer from 0 to 255.
    Byte,
    Bool,
    Texts,
    TextMap,
    /// A text, or a number of nanoseconds.
    Duration,
}

/// Value of an attribute that is absent.
#[derive(Debug, Clone, Copy)]
pub(super) enum Absent {
    Null,
    Text(&'static str),
    Number(i64),
    Bool(bool),
    EmptyList,
}

type Decode = fn(&mut Decoder<'_>, &[&Instance<'_>], &Scope<'_>, &mut Object);
type Check = fn(&mut Decoder<'_>, &Body, &mut Object);

/// One member, or a rule about members.
pub(super) enum Field {
    Attribute {
        name: &'static str,
        key: &'static str,
        kind: Kind,
        absent: Absent,
        required: bool,
    },
    /// The block's label.
    Label {
        key: &'static str,
    },
    /// A member that the text can not set.
    Fixed {
        key: &'static str,
        value: Absent,
    },
    /// A block of strings by name, or for some names an attribute.
    Strings {
        name: &'static str,
        key: &'static str,
        attribute_too: bool,
    },
    /// A block of lists of strings by name.
    StringLists {
        name: &'static str,
        key: &'static str,
    },
    /// A free-form block.
    Free {
        name: &'static str,
        key: &'static str,
    },
    /// At most one block.
    Block {
        name: &'static str,
        key: &'static str,
        schema: &'static Schema,
    },
    /// A list of blocks.
    Blocks {
        name: &'static str,
        key: &'static str,
        schema: &'static Schema,
    },
    /// Blocks by label.
    Keyed {
        name: &'static str,
        key: &'static str,
        schema: &'static Schema,
    },
    /// Blocks with a decoder of their own.
    Special {
        name: &'static str,
        labels: &'static [&'static str],
        decode: Decode,
    },
    /// A check that runs after all members were decoded.
    After {
        check: Check,
    },
}

impl Schema {
    pub(super) fn attribute_names(&self) -> Vec<&'static str> {
        self.fields
            .iter()
            .filter_map(|field| match field {
                Field::Attribute { name, .. } | Field::Strings { name, attribute_too: true, .. } => Some(*name),
                _ => None,
            })
            .collect()
    }

    /// Kinds of blocks with the names of their labels.
    pub(super) fn block_kinds(&self) -> Vec<(&'static str, &'static [&'static str])> {
        self.fields
            .iter()
            .filter_map(|field| match field {
                Field::Strings { name, .. } | Field::StringLists { name, .. } | Field::Free { name, .. } => Some((*name, [].as_slice())),
                Field::Block { name, schema, .. } | Field::Blocks { name, schema, .. } | Field::Keyed { name, schema, .. } => {
                    Some((*name, schema.labels))
                }
                Field::Special { name, labels, .. } => Some((*name, *labels)),
                Field::Attribute { .. } | Field::Label { .. } | Field::Fixed { .. } | Field::After { .. } => None,
            })
            .collect()
    }
}

const fn attribute(name: &'static str, key: &'static str, kind: Kind, absent: Absent) -> Field {
    Field::Attribute { name, key, kind, absent, required: false }
}

/// An optional attribute, null when absent.
const fn opt(name: &'static str, key: &'static str, kind: Kind) -> Field {
    attribute(name, key, kind, Absent::Null)
}

const fn text(name: &'static str, key: &'static str) -> Field {
    attribute(name, key, Kind::Text, Absent::Text(""))
}

const fn int(name: &'static str, key: &'static str) -> Field {
    attribute(name, key, Kind::Integer, Absent::Number(0))
}

const fn flag(name: &'static str, key: &'static str) -> Field {
    attribute(name, key, Kind::Bool, Absent::Bool(false))
}

const fn texts(name: &'static str, key: &'static str) -> Field {
    attribute(name, key, Kind::Texts, Absent::Null)
}

const fn fixed(key: &'static str, value: Absent) -> Field {
    Field::Fixed { key, value }
}

const fn strings(name: &'static str, key: &'static str) -> Field {
    Field::Strings { name, key, attribute_too: false }
}

/// A block of strings that may also be an attribute, for keys with dots (`meta`, `env`).
const fn strings_too(name: &'static str, key: &'static str) -> Field {
    Field::Strings { name, key, attribute_too: true }
}

const fn block(name: &'static str, key: &'static str, schema: &'static Schema) -> Field {
    Field::Block { name, key, schema }
}

const fn blocks(name: &'static str, key: &'static str, schema: &'static Schema) -> Field {
    Field::Blocks { name, key, schema }
}

const fn special(name: &'static str, decode: Decode) -> Field {
    Field::Special { name, labels: &[], decode }
}

const NO_LABEL: &[&str] = &[];
/// A label without a name.
const ONE_LABEL: &[&str] = &[""];
const NAME: &[&str] = &["name"];

pub(super) const JOB: Schema = Schema {
    labels: NAME,
    fields: &[
        opt("id", "ID", Kind::Text),
        opt("name", "Name", Kind::Text),
        opt("region", "Region", Kind::Text),
        opt("namespace", "Namespace", Kind::Text),
        opt("type", "Type", Kind::Text),
        opt("priority", "Priority", Kind::Integer),
        opt("all_at_once", "AllAtOnce", Kind::Bool),
        texts("datacenters", "Datacenters"),
        opt("node_pool", "NodePool", Kind::Text),
        opt("consul_token", "ConsulToken", Kind::Text),
        opt("vault_token", "VaultToken", Kind::Text),
        special("constraint", special::constraints),
        special("affinity", special::affinities),
        blocks("spread", "Spreads", &SPREAD),
        block("update", "Update", &UPDATE),
        block("migrate", "Migrate", &MIGRATE),
        block("reschedule", "Reschedule", &RESCHEDULE),
        block("multiregion", "Multiregion", &MULTIREGION),
        block("periodic", "Periodic", &PERIODIC),
        block("parameterized", "ParameterizedJob", &PARAMETERIZED),
        strings_too("meta", "Meta"),
        Field::Blocks { name: "group", key: "TaskGroups", schema: &GROUP },
        Field::Special { name: "task", labels: NAME, decode: special::job_tasks },
        special("vault", special::job_vault),
        fixed("Dispatched", Absent::Bool(false)),
        fixed("ConsulNamespace", Absent::Null),
        fixed("CreateIndex", Absent::Null),
        fixed("DispatchIdempotencyToken", Absent::Null),
        fixed("JobModifyIndex", Absent::Null),
        fixed("ModifyIndex", Absent::Null),
        fixed("NomadTokenID", Absent::Null),
        fixed("ParentID", Absent::Null),
        fixed("Payload", Absent::Null),
        fixed("Stable", Absent::Null),
        fixed("Status", Absent::Null),
        fixed("StatusDescription", Absent::Null),
        fixed("Stop", Absent::Null),
        fixed("SubmitTime", Absent::Null),
        fixed("VaultNamespace", Absent::Null),
        fixed("Version", Absent::Null),
    ],
};

const SPREAD: Schema = Schema {
    labels: NO_LABEL,
    fields: &[text("attribute", "Attribute"), opt("weight", "Weight", Kind::Small), blocks("target", "SpreadTarget", &SPREAD_TARGET)],
};

const SPREAD_TARGET: Schema =
    Schema { labels: ONE_LABEL, fields: &[Field::Label { key: "Value" }, attribute("percent", "Percent", Kind::Byte, Absent::Number(0))] };

const UPDATE: Schema = Schema {
    labels: NO_LABEL,
    fields: &[
        opt("stagger", "Stagger", Kind::Duration),
        opt("max_parallel", "MaxParallel", Kind::Integer),
        opt("health_check", "HealthCheck", Kind::Text),
        opt("min_healthy_time", "MinHealthyTime", Kind::Duration),
        opt("healthy_deadline", "HealthyDeadline", Kind::Duration),
        opt("progress_deadline", "ProgressDeadline", Kind::Duration),
        opt("canary", "Canary", Kind::Integer),
        opt("auto_revert", "AutoRevert", Kind::Bool),
        opt("auto_promote", "AutoPromote", Kind::Bool),
    ],
};

const MIGRATE: Schema = Schema {
    labels: NO_LABEL,
    fields: &[
        opt("max_parallel", "MaxParallel", Kind::Integer),
        opt("health_check", "HealthCheck", Kind::Text),
        opt("min_healthy_time", "MinHealthyTime", Kind::Duration),
        opt("healthy_deadline", "HealthyDeadline", Kind::Duration),
    ],
};

const RESCHEDULE: Schema = Schema {
    labels: NO_LABEL,
    fields: &[
        opt("attempts", "Attempts", Kind::Integer),
        opt("interval", "Interval", Kind::Duration),
        opt("delay", "Delay", Kind::Duration),
        opt("delay_function", "DelayFunction", Kind::Text),
        opt("max_delay", "MaxDelay", Kind::Duration),
        opt("unlimited", "Unlimited", Kind::Bool),
    ],
};

const RESTART: Schema = Schema {
    labels: NO_LABEL,
    fields: &[
        opt("attempts", "Attempts", Kind::Integer),
        opt("interval", "Interval", Kind::Duration),
        opt("delay", "Delay", Kind::Duration),
        opt("mode", "Mode", Kind::Text),
        opt("render_templates", "RenderTemplates", Kind::Bool),
    ],
};

const MULTIREGION: Schema =
    Schema { labels: NO_LABEL, fields: &[block("strategy", "Strategy", &STRATEGY), blocks("region", "Regions", &REGION)] };

const STRATEGY: Schema =
    Schema { labels: NO_LABEL, fields: &[opt("max_parallel", "MaxParallel", Kind::Integer), opt("on_failure", "OnFailure", Kind::Text)] };

const REGION: Schema = Schema {
    labels: ONE_LABEL,
    fields: &[
        Field::Label { key: "Name" },
        opt("count", "Count", Kind::Integer),
        texts("datacenters", "Datacenters"),
        text("node_pool", "NodePool"),
        strings("meta", "Meta"),
    ],
};

const PERIODIC: Schema = Schema {
    labels: NO_LABEL,
    fields: &[
        opt("enabled", "Enabled", Kind::Bool),
        opt("cron", "Spec", Kind::Text),
        texts("crons", "Specs"),
        opt("prohibit_overlap", "ProhibitOverlap", Kind::Bool),
        opt("time_zone", "TimeZone", Kind::Text),
        fixed("SpecType", Absent::Null),
        Field::After { check: special::spec_type },
    ],
};

const PARAMETERIZED: Schema = Schema {
    labels: NO_LABEL,
    fields: &[text("payload", "Payload"), texts("meta_required", "MetaRequired"), texts("meta_optional", "MetaOptional")],
};

const GROUP: Schema = Schema {
    labels: NAME,
    fields: &[
        Field::Label { key: "Name" },
        opt("count", "Count", Kind::Integer),
        special("constraint", special::constraints),
        special("affinity", special::affinities),
        blocks("task", "Tasks", &TASK),
        blocks("spread", "Spreads", &SPREAD),
        Field::Keyed { name: "volume", key: "Volumes", schema: &VOLUME },
        block("restart", "RestartPolicy", &RESTART),
        block("reschedule", "ReschedulePolicy", &RESCHEDULE),
        block("ephemeral_disk", "EphemeralDisk", &EPHEMERAL_DISK),
        block("update", "Update", &UPDATE),
        block("migrate", "Migrate", &MIGRATE),
        blocks("network", "Networks", &NETWORK),
        strings_too("meta", "Meta"),
        blocks("service", "Services", &SERVICE),
        opt("shutdown_delay", "ShutdownDelay", Kind::Duration),
        opt("stop_after_client_disconnect", "StopAfterClientDisconnect", Kind::Duration),
        opt("max_client_disconnect", "MaxClientDisconnect", Kind::Duration),
        block("scaling", "Scaling", &GROUP_SCALING),
        block("consul", "Consul", &CONSUL),
        special("vault", special::group_vault),
    ],
};

const CONSUL: Schema = Schema { labels: NO_LABEL, fields: &[text("namespace", "Namespace")] };

const EPHEMERAL_DISK: Schema = Schema {
    labels: NO_LABEL,
    fields: &[opt("sticky", "Sticky", Kind::Bool), opt("migrate", "Migrate", Kind::Bool), opt("size", "SizeMB", Kind::Integer)],
};

const VOLUME: Schema = Schema {
    labels: NAME,
    fields: &[
        Field::Label { key: "Name" },
        text("type", "Type"),
        text("source", "Source"),
        flag("read_only", "ReadOnly"),
        text("access_mode", "AccessMode"),
        text("attachment_mode", "AttachmentMode"),
        flag("per_alloc", "PerAlloc"),
        block("mount_options", "MountOptions", &MOUNT_OPTIONS),
    ],
};

const MOUNT_OPTIONS: Schema = Schema { labels: NO_LABEL, fields: &[text("fs_type", "FSType"), texts("mount_flags", "MountFlags")] };

const NETWORK: Schema = Schema {
    labels: NO_LABEL,
    fields: &[
        text("mode", "Mode"),
        text("device", "Device"),
        text("cidr", "CIDR"),
        text("ip", "IP"),
        text("hostname", "Hostname"),
        opt("mbits", "MBits", Kind::Integer),
        block("dns", "DNS", &DNS),
        blocks("reserved_ports", "ReservedPorts", &PORT),
        blocks("port", "DynamicPorts", &PORT),
        Field::After { check: special::sort_ports },
    ],
};

const DNS: Schema =
    Schema { labels: NO_LABEL, fields: &[texts("servers", "Servers"), texts("searches", "Searches"), texts("options", "Options")] };

const PORT: Schema = Schema {
    labels: ONE_LABEL,
    fields: &[Field::Label { key: "Label" }, int("static", "Value"), int("to", "To"), text("host_network", "HostNetwork")],
};

const GROUP_SCALING: Schema = Schema {
    labels: NO_LABEL,
    fields: &[
        opt("enabled", "Enabled", Kind::Bool),
        opt("min", "Min", Kind::Integer),
        Field::Attribute { name: "max", key: "Max", kind: Kind::Integer, absent: Absent::Null, required: true },
        Field::Free { name: "policy", key: "Policy" },
        attribute("type", "Type", Kind::Text, Absent::Text(spec::GROUP_SCALING_TYPE)),
        fixed("ID", Absent::Text("")),
        fixed("Namespace", Absent::Text("")),
        fixed("Target", Absent::Null),
        fixed("CreateIndex", Absent::Number(0)),
        fixed("ModifyIndex", Absent::Number(0)),
        Field::After { check: special::group_scaling_type },
    ],
};

/// A group `{"Name": ..}` for a task directly in the job, with every member that a group has.
pub(super) fn lone_group(name: &str, task: Json) -> Json {
    let mut group = Object::new();
    for field in GROUP.fields {
        match field {
            Field::Attribute { key, absent, .. } => {
                group.insert((*key).to_string(), absent.json());
            }
            Field::Strings { key, .. } | Field::Block { key, .. } | Field::Blocks { key, .. } | Field::Keyed { key, .. } => {
                group.insert((*key).to_string(), Json::Null);
            }
            _ => {}
        }
    }
    group.insert("Constraints".to_string(), Json::Null);
    group.insert("Affinities".to_string(), Json::Null);
    group.insert("Name".to_string(), json!(name));
    group.insert("Count".to_string(), json!(spec::DEFAULT_COUNT));
    group.insert("Tasks".to_string(), json!([task]));
    Json::Object(group)
}
