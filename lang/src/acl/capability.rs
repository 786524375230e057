//! The words of the policy language: capabilities, and what the shorthand words stand for.

use std::fmt;

/// A word that is no capability.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("unknown capability")]
pub struct UnknownCapability;

/// An enum of words, and sets of them. `deny` is not one of them: it is the absence of all others.
macro_rules! capabilities {
    ($(#[$doc:meta])* $name:ident { $($(#[$each:meta])* $variant:ident = $word:literal),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum $name {
            $($(#[$each])* $variant,)*
        }

        impl $name {
            /// All of them.
            pub const ALL: &'static [Self] = &[$($name::$variant),*];

            /// The word in a policy.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $($name::$variant => $word,)*
                }
            }

            /// As one bit of a set.
            pub(super) const fn bit(self) -> u32 {
                1 << self as u32
            }
        }

        impl std::str::FromStr for $name {
            type Err = UnknownCapability;

            fn from_str(word: &str) -> Result<Self, UnknownCapability> {
                match word {
                    $($word => Ok($name::$variant),)*
                    _ => Err(UnknownCapability),
                }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.as_str())
            }
        }
    };
}

capabilities!(
    /// What may be done in a namespace.
    NamespaceCapability {
        /// List jobs and see their summaries there; list CSI volumes, too.
        ListJobs = "list-jobs",
        /// Have a job file read.
        ParseJob = "parse-job",
        /// See jobs, and all that comes of them.
        ReadJob = "read-job",
        /// Register, change and stop jobs.
        SubmitJob = "submit-job",
        /// Dispatch parameterized jobs.
        DispatchJob = "dispatch-job",
        /// Read the logs of tasks.
        ReadLogs = "read-logs",
        /// Read the files of allocs, logs among them.
        ReadFs = "read-fs",
        /// Run a command in a task.
        AllocExec = "alloc-exec",
        /// The same where the driver does not isolate files.
        AllocNodeExec = "alloc-node-exec",
        /// Stop, restart and signal allocs.
        AllocLifecycle = "alloc-lifecycle",
        /// Register jobs that are CSI plugins.
        CsiRegisterPlugin = "csi-register-plugin",
        /// Register, make and delete CSI volumes.
        CsiWriteVolume = "csi-write-volume",
        /// See CSI volumes.
        CsiReadVolume = "csi-read-volume",
        /// List CSI volumes.
        CsiListVolume = "csi-list-volume",
        /// Use CSI volumes in jobs.
        CsiMountVolume = "csi-mount-volume",
        /// List scaling policies.
        ListScalingPolicies = "list-scaling-policies",
        /// See a scaling policy.
        ReadScalingPolicy = "read-scaling-policy",
        /// See how far a job is scaled.
        ReadJobScaling = "read-job-scaling",
        /// Scale a job.
        ScaleJob = "scale-job",
        /// A word of an edition with more features. It allows nothing.
        SentinelOverride = "sentinel-override",
        /// A word of an edition with more features. It allows nothing.
        SubmitRecommendation = "submit-recommendation",
    }
);

capabilities!(
    /// What may be done with a node pool.
    NodePoolCapability {
        /// Delete it.
        Delete = "delete",
        /// See it.
        Read = "read",
        /// Make or change it.
        Write = "write",
    }
);

capabilities!(
    /// What may be done with a volume of a host.
    HostVolumeCapability {
        /// Mount it for reading.
        MountReadonly = "mount-readonly",
        /// Mount it for writing.
        MountReadwrite = "mount-readwrite",
    }
);

capabilities!(
    /// What may be done with variables below a path.
    VariableCapability {
        /// See that they are there.
        List = "list",
        /// See what they hold.
        Read = "read",
        /// Make or change them.
        Write = "write",
        /// Delete them.
        Destroy = "destroy",
    }
);

impl NamespaceCapability {
    const READ: &'static [Self] = &[
        Self::ListJobs,
        Self::ParseJob,
        Self::ReadJob,
        Self::CsiListVolume,
        Self::CsiReadVolume,
        Self::ReadJobScaling,
        Self::ListScalingPolicies,
        Self::ReadScalingPolicy,
    ];
    const WRITE: &'static [Self] = &[
        Self::ListJobs,
        Self::ParseJob,
        Self::ReadJob,
        Self::CsiListVolume,
        Self::CsiReadVolume,
        Self::ReadJobScaling,
        Self::ListScalingPolicies,
        Self::ReadScalingPolicy,
        Self::ScaleJob,
        Self::SubmitJob,
        Self::DispatchJob,
        Self::ReadLogs,
        Self::ReadFs,
        Self::AllocExec,
        Self::AllocLifecycle,
        Self::CsiMountVolume,
        Self::CsiWriteVolume,
        Self::SubmitRecommendation,
    ];
    const SCALE: &'static [Self] = &[Self::ListScalingPolicies, Self::ReadScalingPolicy, Self::ReadJobScaling, Self::ScaleJob];

    /// What a namespace's `policy` stands for. `deny` and words that mean nothing stand for none.
    pub fn of_policy(word: &str) -> &'static [Self] {
        match word {
            "read" => Self::READ,
            "write" => Self::WRITE,
            "scale" => Self::SCALE,
            _ => &[],
        }
    }
}

impl NodePoolCapability {
    /// What a node pool's `policy` stands for.
    pub fn of_policy(word: &str) -> &'static [Self] {
        match word {
            "read" => &[Self::Read],
            "write" => Self::ALL,
            _ => &[],
        }
    }
}

impl HostVolumeCapability {
    /// What a host volume's `policy` stands for.
    pub fn of_policy(word: &str) -> &'static [Self] {
        match word {
            "read" => &[Self::MountReadonly],
            "write" => Self::ALL,
            _ => &[],
        }
    }
}

/// How far the rule of a block goes that has no capabilities: agent, node, operator, quota, plugin. A later one includes those before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Access {
    /// Nothing.
    #[default]
    None,
    /// Only plugins know it.
    List,
    /// See it.
    Read,
    /// Change it.
    Write,
}

impl Access {
    /// The word in a policy.
    pub const fn as_str(self) -> &'static str {
        match self {
            Access::None => "none",
            Access::List => "list",
            Access::Read => "read",
            Access::Write => "write",
        }
    }

    /// What a block's `policy` stands for.
    pub(super) fn of_policy(word: &str) -> Self {
        match word {
            "list" => Access::List,
            "read" => Access::Read,
            "write" => Access::Write,
            _ => Access::None,
        }
    }
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
