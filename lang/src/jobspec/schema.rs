//! Schemas of the blocks of a job file: allowed attributes and blocks, and the members of the job that they become.
//! `decode.rs` converts attributes; `special.rs` has blocks with special rules.

mod group;
mod service;
mod task;

use serde_json::{Value as Json, json};
use songline_model::spec;

use super::Object;
use super::decode::{Decoder, Instance};
use super::special;
use crate::hcl::ast::Body;
use crate::hcl::eval::Scope;
use group::GROUP;
pub(super) use group::group_of_task;
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
        /// Whether the body is read for these blocks before it is read for the others. Wrong labels are then reported
        /// by both readings, as in the reference.
        early: bool,
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

    /// Kinds of blocks that are read before the others, with the names of their labels; with them `dynamic` blocks.
    pub(super) fn early_kinds(&self) -> Vec<(&'static str, &'static [&'static str])> {
        let early = self.fields.iter().filter_map(|field| match field {
            Field::Special { name, labels, early: true, .. } => Some((*name, *labels)),
            Field::Special { .. }
            | Field::Attribute { .. }
            | Field::Label { .. }
            | Field::Fixed { .. }
            | Field::Strings { .. }
            | Field::StringLists { .. }
            | Field::Free { .. }
            | Field::Block { .. }
            | Field::Blocks { .. }
            | Field::Keyed { .. }
            | Field::After { .. } => None,
        });
        early.collect()
    }

    /// Kinds of blocks with the names of their labels.
    pub(super) fn block_kinds(&self) -> Vec<(&'static str, &'static [&'static str])> {
        self.fields
            .iter()
            .filter_map(|field| match field {
                Field::Strings { name, .. } | Field::StringLists { name, .. } | Field::Free { name, .. } => {
                    Some((*name, [].as_slice()))
                }
                Field::Block { name, schema, .. }
                | Field::Blocks { name, schema, .. }
                | Field::Keyed { name, schema, .. } => Some((*name, schema.labels)),
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
    Field::Special { name, labels: &[], decode, early: false }
}

/// Blocks that are read before the others.
const fn early(name: &'static str, labels: &'static [&'static str], decode: Decode) -> Field {
    Field::Special { name, labels, decode, early: true }
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
        early("task", NAME, special::job_tasks),
        early("vault", NO_LABEL, special::job_vault),
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
    fields: &[
        text("attribute", "Attribute"),
        opt("weight", "Weight", Kind::Small),
        blocks("target", "SpreadTarget", &SPREAD_TARGET),
    ],
};

const SPREAD_TARGET: Schema = Schema {
    labels: ONE_LABEL,
    fields: &[Field::Label { key: "Value" }, attribute("percent", "Percent", Kind::Byte, Absent::Number(0))],
};

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

const MULTIREGION: Schema = Schema {
    labels: NO_LABEL,
    fields: &[block("strategy", "Strategy", &STRATEGY), blocks("region", "Regions", &REGION)],
};

const STRATEGY: Schema = Schema {
    labels: NO_LABEL,
    fields: &[opt("max_parallel", "MaxParallel", Kind::Integer), opt("on_failure", "OnFailure", Kind::Text)],
};

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
    fields: &[
        text("payload", "Payload"),
        texts("meta_required", "MetaRequired"),
        texts("meta_optional", "MetaOptional"),
    ],
};
