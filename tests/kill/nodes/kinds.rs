//! Jobs of the four kinds of tasks: in a container, isolated, isolated behind a bridge with a mapped port, and isolated
//! with a CSI volume. Each task leaves a word of its start, and is never restarted or replaced.

use std::path::Path;

use serde_json::{Value, json};

/// Volume of the CSI plugin that all jobs of that kind use at the same time.
pub const VOLUME: &str = "shared";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Docker,
    Exec,
    Bridge,
    Csi,
}

impl Kind {
    pub const ALL: [Kind; 4] = [Kind::Docker, Kind::Exec, Kind::Bridge, Kind::Csi];

    /// The job of this name. `told` is the folder for the words of starts.
    pub fn job(self, id: &str, told: &Path) -> Value {
        let word = "echo $NOMAD_ALLOC_ID >> /told/starts; ";
        let (script, volumes) = match self {
            Kind::Docker | Kind::Exec => ("exec sleep 86400", json!({})),
            Kind::Bridge => ("exec busybox httpd -f -p 8080 -h /local", json!({})),
            Kind::Csi => (
                "exec sleep 86400",
                json!({"data": {
                    "Name": "data", "Type": "csi", "Source": VOLUME,
                    "AccessMode": "multi-node-multi-writer", "AttachmentMode": "file-system",
                }}),
            ),
        };
        let args = json!(["-c", format!("{word}{script}")]);
        let told_volume = json!({"Name": "told", "Type": "host", "Source": "told"});
        let mut task = json!({
            "Name": "task", "Driver": "exec", "Config": {"command": "/bin/sh", "args": args},
            "KillTimeout": 200_000_000, "Resources": {"CPU": 10, "MemoryMB": 16},
        });
        let mut group = json!({
            "Name": "group", "Count": 1, "Volumes": volumes,
            "RestartPolicy": {"Attempts": 0, "Interval": 600_000_000_000_u64, "Delay": 10_000_000, "Mode": "fail"},
            "ReschedulePolicy": {"Attempts": 0, "Interval": 0, "Unlimited": false},
        });
        if self == Kind::Docker {
            task["Driver"] = json!("docker");
            task["Config"]["image"] = json!("local/busybox:1");
            task["Config"]["volumes"] = json!([format!("{}:/told", told.display())]);
        } else {
            group["Volumes"]["told"] = told_volume;
            task["VolumeMounts"] = json!([{"Volume": "told", "Destination": "/told"}]);
        }
        match self {
            Kind::Docker | Kind::Exec => {}
            Kind::Bridge => {
                group["Networks"] = json!([{"Mode": "bridge", "DynamicPorts": [{"Label": "http", "To": 8080}]}]);
            }
            Kind::Csi => {
                if let Some(mounts) = task["VolumeMounts"].as_array_mut() {
                    mounts.push(json!({"Volume": "data", "Destination": "/data"}));
                }
            }
        }
        group["Tasks"] = json!([task]);
        json!({"Job": {"ID": id, "Name": id, "Type": "service", "Datacenters": ["*"], "TaskGroups": [group]}})
    }
}
