//! Schemas of a task.

use super::group::NETWORK;
use super::service::SERVICE;
use super::*;

pub(in crate::jobspec) const TASK_SCALING: Schema = Schema {
    labels: NAME,
    fields: &[
        opt("enabled", "Enabled", Kind::Bool),
        opt("min", "Min", Kind::Integer),
        opt("max", "Max", Kind::Integer),
        Field::Free { name: "policy", key: "Policy" },
        text("type", "Type"),
        fixed("ID", Absent::Text("")),
        fixed("Namespace", Absent::Text("")),
        fixed("Target", Absent::Null),
        fixed("CreateIndex", Absent::Number(0)),
        fixed("ModifyIndex", Absent::Number(0)),
    ],
};

pub(in crate::jobspec) const TASK: Schema = Schema {
    labels: NAME,
    fields: &[
        Field::Label { key: "Name" },
        text("driver", "Driver"),
        text("user", "User"),
        block("lifecycle", "Lifecycle", &LIFECYCLE),
        Field::Free { name: "config", key: "Config" },
        special("constraint", special::constraints),
        special("affinity", special::affinities),
        strings_too("env", "Env"),
        blocks("service", "Services", &SERVICE),
        block("resources", "Resources", &RESOURCES),
        block("restart", "RestartPolicy", &RESTART),
        strings_too("meta", "Meta"),
        opt("kill_timeout", "KillTimeout", Kind::Duration),
        block("logs", "LogConfig", &LOGS),
        blocks("artifact", "Artifacts", &ARTIFACT),
        block("vault", "Vault", &VAULT),
        blocks("template", "Templates", &TEMPLATE),
        block("dispatch_payload", "DispatchPayload", &DISPATCH_PAYLOAD),
        blocks("volume_mount", "VolumeMounts", &VOLUME_MOUNT),
        special("csi_plugin", special::csi_plugin),
        flag("leader", "Leader"),
        attribute("shutdown_delay", "ShutdownDelay", Kind::Duration, Absent::Number(0)),
        text("kill_signal", "KillSignal"),
        text("kind", "Kind"),
        early("scaling", NAME, special::task_scaling),
        block("identity", "Identity", &IDENTITY),
    ],
};

const LIFECYCLE: Schema = Schema { labels: NO_LABEL, fields: &[text("hook", "Hook"), flag("sidecar", "Sidecar")] };

const IDENTITY: Schema = Schema { labels: NO_LABEL, fields: &[flag("env", "Env"), flag("file", "File")] };

const DISPATCH_PAYLOAD: Schema = Schema { labels: NO_LABEL, fields: &[text("file", "File")] };

pub(super) const LOGS: Schema = Schema {
    labels: NO_LABEL,
    fields: &[
        opt("max_files", "MaxFiles", Kind::Integer),
        opt("max_file_size", "MaxFileSizeMB", Kind::Integer),
        opt("enabled", "Enabled", Kind::Bool),
        opt("disabled", "Disabled", Kind::Bool),
    ],
};

const ARTIFACT: Schema = Schema {
    labels: NO_LABEL,
    fields: &[
        opt("source", "GetterSource", Kind::Text),
        strings("options", "GetterOptions"),
        strings("headers", "GetterHeaders"),
        opt("mode", "GetterMode", Kind::Text),
        opt("destination", "RelativeDest", Kind::Text),
    ],
};

const VOLUME_MOUNT: Schema = Schema {
    labels: NO_LABEL,
    fields: &[
        opt("volume", "Volume", Kind::Text),
        opt("destination", "Destination", Kind::Text),
        opt("read_only", "ReadOnly", Kind::Bool),
        opt("propagation_mode", "PropagationMode", Kind::Text),
    ],
};

pub(in crate::jobspec) const CSI_PLUGIN: Schema = Schema {
    labels: NO_LABEL,
    fields: &[
        text("id", "ID"),
        text("type", "Type"),
        text("mount_dir", "MountDir"),
        text("stage_publish_base_dir", "StagePublishBaseDir"),
        attribute("health_timeout", "HealthTimeout", Kind::Duration, Absent::Number(0)),
    ],
};

pub(in crate::jobspec) const VAULT: Schema = Schema {
    labels: NO_LABEL,
    fields: &[
        texts("policies", "Policies"),
        opt("namespace", "Namespace", Kind::Text),
        attribute("env", "Env", Kind::Bool, Absent::Bool(spec::DEFAULT_VAULT_ENV)),
        attribute("disable_file", "DisableFile", Kind::Bool, Absent::Bool(false)),
        attribute("change_mode", "ChangeMode", Kind::Text, Absent::Text(spec::DEFAULT_CHANGE_MODE)),
        opt("change_signal", "ChangeSignal", Kind::Text),
    ],
};

const TEMPLATE: Schema = Schema {
    labels: NO_LABEL,
    fields: &[
        opt("source", "SourcePath", Kind::Text),
        opt("destination", "DestPath", Kind::Text),
        opt("data", "EmbeddedTmpl", Kind::Text),
        attribute("change_mode", "ChangeMode", Kind::Text, Absent::Text(spec::DEFAULT_CHANGE_MODE)),
        opt("change_signal", "ChangeSignal", Kind::Text),
        block("change_script", "ChangeScript", &CHANGE_SCRIPT),
        attribute("splay", "Splay", Kind::Duration, Absent::Number(spec::DEFAULT_TEMPLATE_SPLAY.nanos())),
        attribute("perms", "Perms", Kind::Text, Absent::Text(spec::DEFAULT_TEMPLATE_PERMS)),
        opt("uid", "Uid", Kind::Integer),
        opt("gid", "Gid", Kind::Integer),
        opt("left_delimiter", "LeftDelim", Kind::Text),
        opt("right_delimiter", "RightDelim", Kind::Text),
        opt("env", "Envvars", Kind::Bool),
        opt("vault_grace", "VaultGrace", Kind::Duration),
        block("wait", "Wait", &WAIT),
        attribute("error_on_missing_key", "ErrMissingKey", Kind::Bool, Absent::Bool(false)),
    ],
};

const CHANGE_SCRIPT: Schema = Schema {
    labels: NO_LABEL,
    fields: &[
        opt("command", "Command", Kind::Text),
        attribute("args", "Args", Kind::Texts, Absent::EmptyList),
        attribute("timeout", "Timeout", Kind::Duration, Absent::Number(spec::DEFAULT_SCRIPT_TIMEOUT.nanos())),
        attribute("fail_on_error", "FailOnError", Kind::Bool, Absent::Bool(false)),
    ],
};

const WAIT: Schema =
    Schema { labels: NO_LABEL, fields: &[opt("min", "Min", Kind::Duration), opt("max", "Max", Kind::Duration)] };

pub(super) const RESOURCES: Schema = Schema {
    labels: NO_LABEL,
    fields: &[
        opt("cpu", "CPU", Kind::Integer),
        opt("cores", "Cores", Kind::Integer),
        opt("memory", "MemoryMB", Kind::Integer),
        opt("memory_max", "MemoryMaxMB", Kind::Integer),
        opt("disk", "DiskMB", Kind::Integer),
        opt("iops", "IOPS", Kind::Integer),
        blocks("network", "Networks", &NETWORK),
        blocks("device", "Devices", &DEVICE),
    ],
};

const DEVICE: Schema = Schema {
    labels: ONE_LABEL,
    fields: &[
        Field::Label { key: "Name" },
        opt("count", "Count", Kind::Unsigned),
        special("constraint", special::constraints),
        special("affinity", special::affinities),
    ],
};
