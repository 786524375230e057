//! Schemas of a group.

use super::service::SERVICE;
use super::task::TASK;
use super::*;

pub(super) const GROUP: Schema = Schema {
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
    fields: &[
        opt("sticky", "Sticky", Kind::Bool),
        opt("migrate", "Migrate", Kind::Bool),
        opt("size", "SizeMB", Kind::Integer),
    ],
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

const MOUNT_OPTIONS: Schema =
    Schema { labels: NO_LABEL, fields: &[text("fs_type", "FSType"), texts("mount_flags", "MountFlags")] };

pub(super) const NETWORK: Schema = Schema {
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

const DNS: Schema = Schema {
    labels: NO_LABEL,
    fields: &[texts("servers", "Servers"), texts("searches", "Searches"), texts("options", "Options")],
};

const PORT: Schema = Schema {
    labels: ONE_LABEL,
    fields: &[
        Field::Label { key: "Label" },
        int("static", "Value"),
        int("to", "To"),
        text("host_network", "HostNetwork"),
    ],
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
pub(in crate::jobspec) fn group_of_task(name: &str, task: Json) -> Json {
    let mut group = Object::new();
    for field in GROUP.fields {
        match field {
            Field::Attribute { key, absent, .. } => {
                group.insert((*key).to_string(), absent.json());
            }
            Field::Strings { key, .. }
            | Field::Block { key, .. }
            | Field::Blocks { key, .. }
            | Field::Keyed { key, .. } => {
                group.insert((*key).to_string(), Json::Null);
            }
            _ => {}
        }
    }
    group.insert("Constraints".to_string(), Json::Null);
    group.insert("Affinities".to_string(), Json::Null);
    group.insert("Name".to_string(), json!(name));
    group.insert("Tasks".to_string(), json!([task]));
    Json::Object(group)
}
