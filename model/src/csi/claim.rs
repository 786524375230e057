//! Claims on a volume: taking a claim, and the steps of its release. The caller passes in whether the allocation
//! exists and the plugin's health; nodes and controllers carry out the steps.

use serde::{Deserialize, Serialize};

use super::{CsiAccessMode, CsiAttachmentMode, CsiClaimMode, CsiClaimState, CsiHealth, CsiVolume, CsiVolumeCapability};
use crate::{AllocId, NodeId, Str};

/// An allocation's right to use a volume, with the state of its release.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, rename = "CSIVolumeClaim", rename_all = "PascalCase")]
pub struct CsiVolumeClaim {
    #[serde(rename = "AllocationID")]
    pub allocation_id: AllocId,
    #[serde(rename = "NodeID")]
    pub node_id: NodeId,
    /// Id of the node in the storage.
    #[serde(rename = "ExternalNodeID")]
    pub external_node_id: Str,
    pub mode: CsiClaimMode,
    pub access_mode: CsiAccessMode,
    pub attachment_mode: CsiAttachmentMode,
    pub state: CsiClaimState,
}

/// Operation that a claim requests on its volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CsiClaimChange {
    /// No change: the claim has no allocation, and only wakes the watchers of the volume.
    ObjectChange,
    /// Take a claim for reading.
    Read,
    /// Take a claim for reading and writing.
    Write,
    /// Record a step of the claim's release.
    Checkpoint,
    /// Remove the claim.
    Free,
}

/// Reason why a claim was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CsiClaimError {
    /// The volume is held with another attachment mode.
    #[error("cannot change attachment mode of claimed volume")]
    AttachmentMode,
    /// The allocation does not exist, so it could not release the claim later.
    #[error("allocation missing: {0}")]
    AllocMissing(AllocId),
    /// No healthy plugin, a full storage, or a write claim where writing is not allowed.
    #[error("volume is currently unschedulable")]
    Unschedulable,
    /// The volume is held, and its access mode allows no further claim.
    #[error("volume max claims reached")]
    MaxClaims,
}

impl CsiVolumeClaim {
    /// The requested operation. A claim that is not `taken` is being released, whatever its mode: the mode only tells
    /// how it was mounted.
    pub fn change(&self) -> CsiClaimChange {
        if self.allocation_id.is_nil() {
            return CsiClaimChange::ObjectChange;
        }
        match (self.state, self.mode) {
            (CsiClaimState::Taken, CsiClaimMode::Read) => CsiClaimChange::Read,
            (CsiClaimState::Taken, CsiClaimMode::Write) => CsiClaimChange::Write,
            (CsiClaimState::ReadyToFree, _) => CsiClaimChange::Free,
            (CsiClaimState::Taken, CsiClaimMode::Gc)
            | (CsiClaimState::NodeDetached | CsiClaimState::ControllerDetached | CsiClaimState::Unpublishing, _) => {
                CsiClaimChange::Checkpoint
            }
        }
    }
}

impl CsiVolume {
    /// Applies a claim. Applying the same claim again is harmless: nodes repeat requests. `alloc_exists` is about the
    /// claim's allocation, `health` about the volume's plugin.
    pub fn claim(
        &mut self,
        claim: &CsiVolumeClaim,
        alloc_exists: bool,
        health: &CsiHealth,
    ) -> Result<(), CsiClaimError> {
        let change = claim.change();
        if change == CsiClaimChange::ObjectChange {
            return Ok(());
        }
        self.offer_what_is_held();
        let known = |mode: &CsiAttachmentMode| !mode.is_unknown();
        if known(&self.attachment_mode)
            && known(&claim.attachment_mode)
            && self.attachment_mode != claim.attachment_mode
        {
            return Err(CsiClaimError::AttachmentMode);
        }
        match change {
            CsiClaimChange::ObjectChange => {}
            CsiClaimChange::Read => {
                if !self.read_claims.contains_key(&claim.allocation_id) {
                    self.may_take(claim, alloc_exists, self.read_schedulable(health), self.has_free_read_claim())?;
                    self.write_claims.remove(&claim.allocation_id);
                    self.read_claims.insert(claim.allocation_id, claim.clone());
                    self.taken(claim);
                }
            }
            CsiClaimChange::Write => {
                if !self.write_claims.contains_key(&claim.allocation_id) {
                    self.may_take(claim, alloc_exists, self.write_schedulable(health), self.has_free_write_claim())?;
                    self.read_claims.remove(&claim.allocation_id);
                    self.write_claims.insert(claim.allocation_id, claim.clone());
                    self.taken(claim);
                }
            }
            CsiClaimChange::Checkpoint => self.checkpoint(claim),
            CsiClaimChange::Free => self.free(claim.allocation_id),
        }
        Ok(())
    }

    /// Adds a past claim in state `unpublishing` unless the allocation has a past claim already. For allocations that
    /// are gone or terminal, whose claims have to be released.
    pub fn give_up(&mut self, alloc: AllocId) {
        let Some((_, held)) = self.holders().find(|(id, _)| **id == alloc) else {
            return;
        };
        if self.past_claims.contains_key(&alloc) {
            return;
        }
        let mut past = CsiVolumeClaim { state: CsiClaimState::Unpublishing, ..held.clone() };
        self.fill_modes(&mut past);
        self.past_claims.insert(alloc, past);
    }

    /// Whether plugin and storage allow another reader.
    pub fn read_schedulable(&self, health: &CsiHealth) -> bool {
        health.schedulable() && self.resource_exhausted.is_none()
    }

    /// Whether plugin, storage and access mode allow another writer.
    pub fn write_schedulable(&self, health: &CsiHealth) -> bool {
        let writable = match &self.access_mode {
            CsiAccessMode::Unknown => {
                self.requested_capabilities.iter().flatten().any(|capability| capability.access_mode.is_writer())
            }
            held => held.is_writer(),
        };
        self.read_schedulable(health) && writable
    }

    /// Whether the current claims leave room for a reader.
    pub fn has_free_read_claim(&self) -> bool {
        match self.access_mode {
            CsiAccessMode::SingleNodeReader => self.read_claims.is_empty(),
            CsiAccessMode::SingleNodeWriter => !self.in_use(),
            CsiAccessMode::Unknown
            | CsiAccessMode::MultiNodeReader
            | CsiAccessMode::MultiNodeSingleWriter
            | CsiAccessMode::MultiNodeMultiWriter
            | CsiAccessMode::Other(_) => true,
        }
    }

    /// Whether the current claims leave room for a writer.
    pub fn has_free_write_claim(&self) -> bool {
        match self.access_mode {
            CsiAccessMode::SingleNodeWriter | CsiAccessMode::MultiNodeSingleWriter => self.write_claims.is_empty(),
            CsiAccessMode::Unknown | CsiAccessMode::MultiNodeMultiWriter => true,
            CsiAccessMode::SingleNodeReader | CsiAccessMode::MultiNodeReader | CsiAccessMode::Other(_) => false,
        }
    }

    fn may_take(
        &self,
        claim: &CsiVolumeClaim,
        alloc_exists: bool,
        schedulable: bool,
        free: bool,
    ) -> Result<(), CsiClaimError> {
        if !alloc_exists {
            return Err(CsiClaimError::AllocMissing(claim.allocation_id));
        }
        if !schedulable {
            return Err(CsiClaimError::Unschedulable);
        }
        if !free {
            return Err(CsiClaimError::MaxClaims);
        }
        Ok(())
    }

    /// The first claim sets the volume's modes; later ones leave them unchanged.
    fn taken(&mut self, claim: &CsiVolumeClaim) {
        self.past_claims.remove(&claim.allocation_id);
        if self.access_mode.is_unknown() {
            self.access_mode = claim.access_mode.clone();
        }
        if self.attachment_mode.is_unknown() {
            self.attachment_mode = claim.attachment_mode.clone();
        }
    }

    /// Records a step of the claim's release. The claim keeps its place until `Free`: a detached node does not mean
    /// that the controller has detached, and a new allocation must not race with the controller. Fields that the
    /// checkpoint leaves empty are taken from the earlier claim.
    fn checkpoint(&mut self, claim: &CsiVolumeClaim) {
        let mut past = claim.clone();
        if let Some(known) = self.past_claims.get(&claim.allocation_id).or_else(|| self.held(claim.allocation_id)) {
            if past.access_mode.is_unknown() {
                past.access_mode = known.access_mode.clone();
            }
            if past.attachment_mode.is_unknown() {
                past.attachment_mode = known.attachment_mode.clone();
            }
            if past.external_node_id.is_empty() {
                past.external_node_id = known.external_node_id.clone();
            }
            if past.node_id.is_nil() {
                past.node_id = known.node_id;
            }
            if past.mode == CsiClaimMode::Gc {
                past.mode = known.mode;
            }
        }
        self.fill_modes(&mut past);
        self.past_claims.insert(claim.allocation_id, past);
    }

    fn free(&mut self, alloc: AllocId) {
        self.read_claims.remove(&alloc);
        self.write_claims.remove(&alloc);
        self.past_claims.remove(&alloc);
        if !self.in_use() && self.past_claims.is_empty() {
            self.access_mode = CsiAccessMode::Unknown;
            self.attachment_mode = CsiAttachmentMode::Unknown;
        }
    }

    fn held(&self, alloc: AllocId) -> Option<&CsiVolumeClaim> {
        self.read_claims.get(&alloc).or_else(|| self.write_claims.get(&alloc))
    }

    /// A claim without modes takes those of the volume.
    fn fill_modes(&self, claim: &mut CsiVolumeClaim) {
        if claim.access_mode.is_unknown() {
            claim.access_mode = self.access_mode.clone();
        }
        if claim.attachment_mode.is_unknown() {
            claim.attachment_mode = self.attachment_mode.clone();
        }
    }

    /// A volume that is held in a mode but lists no capabilities dates from when a volume had a single mode; that mode
    /// becomes its capability.
    fn offer_what_is_held(&mut self) {
        let offers = self.requested_capabilities.as_ref().is_some_and(|offered| !offered.is_empty());
        if !offers && !self.access_mode.is_unknown() && !self.attachment_mode.is_unknown() {
            self.requested_capabilities = Some(vec![CsiVolumeCapability {
                attachment_mode: self.attachment_mode.clone(),
                access_mode: self.access_mode.clone(),
            }]);
        }
    }
}
