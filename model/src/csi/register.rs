//! Registration of a volume: required fields, and the fields of a known volume that a request may change.

use super::{CsiAccessMode, CsiAttachmentMode, CsiVolume, CsiVolumeMountOptions};
use crate::{CsiTopology, Str};

/// Missing or invalid fields of a volume, in one line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("validation: {}", .0.join(", "))]
pub struct InvalidCsiVolume(pub Vec<&'static str>);

/// Fields that a request may not change, one line each.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unable to update volume: {}", list(.0))]
pub struct CsiVolumeUpdateRefused(pub Vec<Str>);

fn list(errors: &[Str]) -> String {
    let head =
        if errors.len() == 1 { "1 error occurred:".to_owned() } else { format!("{} errors occurred:", errors.len()) };
    let lines: String = errors.iter().map(|error| format!("\n\t* {error}")).collect();
    format!("{head}{lines}\n\n")
}

impl CsiVolume {
    /// Checks that a request has every field that a volume needs.
    pub fn validate(&self) -> Result<(), InvalidCsiVolume> {
        let mut errors = Vec::new();
        let mut refuse = |wrong: bool, text: &'static str| {
            if wrong {
                errors.push(text);
            }
        };
        refuse(self.id.is_empty(), "missing volume id");
        refuse(self.plugin_id.is_empty(), "missing plugin id");
        refuse(self.namespace.is_empty(), "missing namespace");
        refuse(
            !self.snapshot_id.is_empty() && !self.clone_id.is_empty(),
            "only one of snapshot_id and clone_id is allowed",
        );
        refuse(
            self.requested_capabilities.as_ref().is_none_or(Vec::is_empty),
            "must include at least one capability block",
        );
        if let Some(asked) = &self.requested_topologies {
            for topology in asked.required.iter().flatten() {
                refuse(is_bare(topology), "required topology is missing segments field");
            }
            for topology in asked.preferred.iter().flatten() {
                refuse(is_bare(topology), "preferred topology is missing segments field");
            }
        }
        if errors.is_empty() { Ok(()) } else { Err(InvalidCsiVolume(errors)) }
    }

    /// The new volume that a request describes. Fields that a request can not set have the values of an unclaimed
    /// volume.
    pub fn as_registered(&self) -> Self {
        let asked = self.requested_topologies.as_ref().and_then(|asked| asked.required.clone());
        let topologies =
            self.topologies.clone().filter(|topologies| !topologies.is_empty()).or(asked).unwrap_or_default();
        Self {
            topologies: Some(topologies),
            access_mode: CsiAccessMode::Unknown,
            attachment_mode: CsiAttachmentMode::Unknown,
            read_claims: Default::default(),
            write_claims: Default::default(),
            past_claims: Default::default(),
            resource_exhausted: None,
            create_index: 0,
            modify_index: 0,
            ..self.clone()
        }
    }

    /// This volume with the changes of a request. Fields that a request can not set are ignored; fields that can no
    /// longer change must equal the stored ones, and some of them may be left out. Fails with every field that may not
    /// change.
    pub fn updated(&self, request: &CsiVolume) -> Result<Self, CsiVolumeUpdateRefused> {
        let mut errors: Vec<Str> = Vec::new();
        let mut must = |holds: bool, text: &'static str| {
            if !holds {
                errors.push(Str::new_static(text));
            }
            holds
        };
        let kept = |stored: &str, asked: &str| asked.is_empty() || stored == asked;
        must(kept(&self.name, &request.name), "volume name cannot be updated");
        must(kept(&self.external_id, &request.external_id), "volume external ID cannot be updated");
        must(self.plugin_id == request.plugin_id, "volume plugin ID cannot be updated");
        must(kept(&self.clone_id, &request.clone_id), "volume clone ID cannot be updated");
        must(kept(&self.snapshot_id, &request.snapshot_id), "volume snapshot ID cannot be updated");
        let mut out = self.clone();
        let held = !self.access_mode.is_unknown() || !self.attachment_mode.is_unknown();
        let offers_held =
            request.requested_capabilities.iter().flatten().any(|offered| {
                offered.access_mode == self.access_mode && offered.attachment_mode == self.attachment_mode
            });
        if must(
            !held || offers_held,
            "volume requested capabilities update was not compatible with existing capability in use",
        ) {
            out.requested_capabilities.clone_from(&request.requested_capabilities);
        }
        let placed = self.topologies.as_ref().is_some_and(|topologies| !topologies.is_empty());
        let same_place = self.requested_topologies == request.requested_topologies;
        if must(!placed || same_place, "volume topology request update was not compatible with existing topology") {
            out.requested_topologies.clone_from(&request.requested_topologies);
        }
        let same_mount = mounted(&self.mount_options) == mounted(&request.mount_options);
        if must(!self.in_use() || same_mount, "can not update mount options while volume is in use") {
            out.mount_options.clone_from(&request.mount_options);
        }
        let asked = request.parameters.as_ref().filter(|asked| !asked.is_empty());
        must(asked.is_none_or(|asked| self.parameters.as_ref() == Some(asked)), "volume parameters cannot be updated");
        out.secrets = request.secrets.clone();
        // The plugin's context stays, unless the request has one.
        if request.context.as_ref().is_some_and(|context| !context.is_empty()) {
            out.context.clone_from(&request.context);
        }
        if let Err(text) = out.resize(request) {
            errors.push(text);
        }
        if errors.is_empty() { Ok(out) } else { Err(CsiVolumeUpdateRefused(errors)) }
    }

    /// Whether the storage has to expand the volume for a request. Fails if the requested sizes are not possible.
    pub fn must_grow(&self, request: &CsiVolume) -> Result<bool, Str> {
        let (min, max) = (request.requested_capacity_min, request.requested_capacity_max);
        if self.has_size(request) {
            return Ok(false);
        }
        let less = |than: &str, bytes: i64| {
            format!("max requested capacity ({}) less than or equal to {than} ({})", size(max), size(bytes)).into()
        };
        if max > 0 && max < min {
            return Err(less("min", min));
        }
        if max > 0 && max < self.capacity {
            return Err(less("current", self.capacity));
        }
        Ok(min > self.capacity)
    }

    /// Applies a requested size. The size may only grow; `request.capacity` is the size in bytes that the storage
    /// reached.
    fn resize(&mut self, request: &CsiVolume) -> Result<(), Str> {
        if self.must_grow(request)? && request.requested_capacity_min > request.capacity {
            return Err(Str::new_static("expand is not implemented by this controller plugin"));
        }
        if !self.has_size(request) {
            self.capacity = self.capacity.max(request.capacity);
            self.requested_capacity_min = request.requested_capacity_min;
            self.requested_capacity_max = request.requested_capacity_max;
        }
        Ok(())
    }

    /// Whether a request asks for no size, or for the one that was requested before.
    fn has_size(&self, request: &CsiVolume) -> bool {
        let (min, max) = (request.requested_capacity_min, request.requested_capacity_max);
        (min, max) == (0, 0) || (min, max) == (self.requested_capacity_min, self.requested_capacity_max)
    }
}

/// A size in decimal units, as people read it: `1.0 GB`, `32 MB`.
fn size(bytes: i64) -> String {
    const UNITS: [&str; 7] = ["B", "kB", "MB", "GB", "TB", "PB", "EB"];
    if bytes < 10 {
        return format!("{bytes} B");
    }
    let (mut scaled, mut unit) = (bytes as f64, 0);
    while scaled >= 1000.0 {
        scaled /= 1000.0;
        unit += 1;
    }
    // One digit after the point is rounded up, and the rest to the nearest even number.
    let scaled = (scaled * 10.0 + 0.5).floor() / 10.0;
    if scaled < 10.0 { format!("{scaled:.1} {}", UNITS[unit]) } else { format!("{scaled:.0} {}", UNITS[unit]) }
}

fn is_bare(topology: &CsiTopology) -> bool {
    topology.segments.as_ref().is_none_or(|segments| segments.is_empty())
}

/// Absent options are equal to empty options.
fn mounted(options: &Option<CsiVolumeMountOptions>) -> CsiVolumeMountOptions {
    options.clone().unwrap_or_default()
}
