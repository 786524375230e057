//! Bounds of fetching artifacts, from the agent's block `client.artifact`.

use serde::{Deserialize, Serialize};
use songline_model::Dur;

/// Settings of the fetching processes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArtifactSettings {
    /// Longest time that one HTTP download may take.
    pub http_read_timeout: Dur,
    /// Largest HTTP download in bytes.
    pub http_bytes_max: u64,
    /// Longest time that fetching from Google Cloud Storage may take.
    pub gcs_timeout: Dur,
    /// Longest time that fetching a git repository may take.
    pub git_timeout: Dur,
    /// Longest time that fetching a Mercurial repository may take.
    pub hg_timeout: Dur,
    /// Longest time that fetching from S3 may take.
    pub s3_timeout: Dur,
    /// Largest number of members of one archive; 0 is no bound.
    pub unpacked_files_max: u64,
    /// Largest size in bytes of what one archive unpacks to; 0 is no bound.
    pub unpacked_bytes_max: u64,
    /// Whether the fetching process is not confined to its directory by Landlock. It has no rights of the agent in
    /// either case.
    pub disable_filesystem_isolation: bool,
    /// Variables of the agent's environment that the fetching process sees.
    pub environment_variables: Vec<String>,
}

impl Default for ArtifactSettings {
    fn default() -> Self {
        Self {
            http_read_timeout: Dur::from_mins(30),
            http_bytes_max: 100_000_000_000,
            gcs_timeout: Dur::from_mins(30),
            git_timeout: Dur::from_mins(30),
            hg_timeout: Dur::from_mins(30),
            s3_timeout: Dur::from_mins(30),
            unpacked_files_max: 4096,
            unpacked_bytes_max: 100_000_000_000,
            disable_filesystem_isolation: false,
            environment_variables: Vec::new(),
        }
    }
}

impl ArtifactSettings {
    /// The longest of all timeouts.
    pub(super) fn timeout_max(&self) -> Dur {
        let all = [self.http_read_timeout, self.gcs_timeout, self.git_timeout, self.hg_timeout, self.s3_timeout];
        all.into_iter().max().unwrap_or_default()
    }

    /// Largest file that the fetching process may write, in bytes.
    pub(super) fn file_bytes_max(&self) -> u64 {
        match self.unpacked_bytes_max {
            0 => u64::MAX,
            unpacked => unpacked.max(self.http_bytes_max),
        }
    }
}
