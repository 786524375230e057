//! Resources that hooks make for those that come after them. Each has a setter and a getter of its own, so that no hook
//! can change what another one made.

use std::collections::BTreeMap;
use std::path::PathBuf;

use parking_lot::Mutex;
use songline_model::Str;

use crate::csi::AllocVolumes;
use crate::network::Made;
use crate::previous::Ended;

/// Resources of an allocation: its hooks make them, its tasks' hooks read them.
#[derive(Default)]
pub(in crate::runner) struct AllocResources {
    previous: Mutex<Option<Ended>>,
    network: Mutex<Made>,
    csi_volumes: Mutex<Option<AllocVolumes>>,
}

impl AllocResources {
    pub fn set_previous(&self, ended: Ended) {
        *self.previous.lock() = Some(ended);
    }

    /// The allocation before this one. `None`: there is none, or it was not waited for.
    pub fn previous(&self) -> Option<Ended> {
        self.previous.lock().clone()
    }

    pub fn set_network(&self, made: Made) {
        *self.network.lock() = made;
    }

    /// The network that the tasks share; before it is made, and if none is wanted, the host's.
    pub fn network(&self) -> Made {
        self.network.lock().clone()
    }

    pub fn set_csi_volumes(&self, volumes: AllocVolumes) {
        *self.csi_volumes.lock() = Some(volumes);
    }

    /// Places of the CSI volumes that are mounted now, by their names in the group.
    pub fn csi_mounts(&self) -> BTreeMap<Str, PathBuf> {
        self.csi_volumes.lock().as_ref().map(AllocVolumes::places).unwrap_or_default()
    }
}
