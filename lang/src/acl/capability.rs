//! Words of the policy language: capabilities, and the shorthands that stand for several capabilities.

use std::fmt;

/// A word that is not a capability.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("unknown capability")]
pub struct UnknownCapability;

/// Defines an enum of words and bit sets of them. `deny` is not among the words: it cancels all others.
macro_rules! capabilities {
    ($(#[$doc:meta])* $name:ident { $($(#[$each:meta])* $variant:ident = $word:literal),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum $name {
            $($(#[$each])* $variant,)*
        }

        impl $name {
            /// All capabilities.
            pub const ALL: &'static [Self] = &[$($name::$variant),*];

            /// The word as policies spell it.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $($name::$variant => $word,)*
                }
            }

            /// The capability's bit in a set.
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
    /// Capabilities in a namespace.
    NamespaceCapability {
        /// List jobs with their summaries, and list CSI volumes.
        ListJobs = "list-jobs",
        /// Parse a job file.
        ParseJob = "parse-job",
        /// Read jobs with their allocs, evals and deployments.
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
        /// Run a command in a task whose driver does not isolate the file system.
        AllocNodeExec = "alloc-node-exec",
        /// Stop, restart and signal allocs.
        AllocLifecycle = "alloc-lifecycle",
        /// Register jobs that run CSI plugins.
        CsiRegisterPlugin = "csi-register-plugin",
        /// Register, create and delete CSI volumes.
        CsiWriteVolume = "csi-write-volume",
        /// Read CSI volumes.
        CsiReadVolume = "csi-read-volume",
        /// List CSI volumes.
        CsiListVolume = "csi-list-volume",
        /// Use CSI volumes in jobs.
        CsiMountVolume = "csi-mount-volume",
        /// List scaling policies.
        ListScalingPolicies = "list-scaling-policies",
        /// Read a scaling policy.
        ReadScalingPolicy = "read-scaling-policy",
        /// Read the scaling status of a job.
        ReadJobScaling = "read-job-scaling",
        /// Scale a job.
        ScaleJob = "scale-job",
        /// A word of the reference's enterprise edition. It permits nothing.
        SentinelOverride = "sentinel-override",
        /// A word of the reference's enterprise edition. It permits nothing.
        SubmitRecommendation = "submit-recommendation",
    }
);

capabilities!(
    /// Capabilities for a node pool.
    NodePoolCapability {
        /// Delete the pool.
        Delete = "delete",
        /// Read the pool.
        Read = "read",
        /// Create or update the pool.
        Write = "write",
    }
);

capabilities!(
    /// Capabilities for a host volume.
    HostVolumeCapability {
        /// Mount the volume for reading.
        MountReadonly = "mount-readonly",
        /// Mount the volume for writing.
        MountReadwrite = "mount-readwrite",
    }
);

capabilities!(
    /// Capabilities for variables below a path.
    VariableCapability {
        /// List the variables' paths.
        List = "list",
        /// Read the items.
        Read = "read",
        /// Create or update the variables.
        Write = "write",
        /// Delete the variables.
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
    const SCALE: &'static [Self] =
        &[Self::ListScalingPolicies, Self::ReadScalingPolicy, Self::ReadJobScaling, Self::ScaleJob];

    /// The capabilities of a namespace's `policy` shorthand. `deny` and unknown words have none.
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
    /// The capabilities of a node pool's `policy` shorthand.
    pub fn of_policy(word: &str) -> &'static [Self] {
        match word {
            "read" => &[Self::Read],
            "write" => Self::ALL,
            _ => &[],
        }
    }
}

impl HostVolumeCapability {
    /// The capabilities of a host volume's `policy` shorthand.
    pub fn of_policy(word: &str) -> &'static [Self] {
        match word {
            "read" => &[Self::MountReadonly],
            "write" => Self::ALL,
            _ => &[],
        }
    }
}

/// Access level of a block without capabilities: agent, node, operator, quota, plugin. A later level includes the
/// earlier ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Access {
    /// No access.
    #[default]
    None,
    /// List; used only by `plugin` blocks.
    List,
    /// Read.
    Read,
    /// Read and change.
    Write,
}

impl Access {
    /// The word as policies spell it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Access::None => "none",
            Access::List => "list",
            Access::Read => "read",
            Access::Write => "write",
        }
    }

    /// The level of a block's `policy`; `None` for unknown words.
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
