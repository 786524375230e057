//! Resources that hooks make for those that come after them. Each has a setter and a getter of its own, so that no hook
//! can change what another one made.

use std::collections::BTreeMap;
use std::path::PathBuf;

use parking_lot::Mutex;
use songline_model::Str;

use crate::beneath::Owner;
use crate::csi::AllocVolumes;
use crate::env::TaskEnv;
use crate::executor::place::Bind;
use crate::network::Made;
use crate::previous::Ended;
use crate::vault::Accounts;

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

/// Resources of one set-up of a task. A later set-up makes all of them anew.
#[derive(Default)]
pub(in crate::runner) struct TaskResources {
    owner: Option<Owner>,
    vault: Option<Accounts>,
    template_vars: BTreeMap<String, String>,
    env: TaskEnv,
    mounts: Vec<Bind>,
    user: String,
}

impl TaskResources {
    pub fn set_owner(&mut self, owner: Option<Owner>) {
        self.owner = owner;
    }

    /// Owner of the task's secrets; `None` is the agent's own user.
    pub fn owner(&self) -> Option<Owner> {
        self.owner
    }

    pub fn set_vault(&mut self, accounts: Accounts) {
        self.vault = Some(accounts);
    }

    /// Follows the task's token of Vault. `None`: the task has no `vault` block.
    pub fn vault(&self) -> Option<&Accounts> {
        self.vault.as_ref()
    }

    pub fn set_template_vars(&mut self, vars: BTreeMap<String, String>) {
        self.template_vars = vars;
    }

    /// Variables that environment templates set.
    pub fn template_vars(&self) -> &BTreeMap<String, String> {
        &self.template_vars
    }

    pub fn set_env(&mut self, env: TaskEnv) {
        self.env = env;
    }

    /// Adds a variable, unless the job has set it.
    pub fn add_variable(&mut self, name: &str, value: String) {
        self.env.vars.entry(name.to_owned()).or_insert(value);
    }

    /// The environment as the task sees it.
    pub fn env(&self) -> &TaskEnv {
        &self.env
    }

    /// Adds mounts to those of the hooks before.
    pub fn add_mounts(&mut self, mounts: Vec<Bind>) {
        self.mounts.extend(mounts);
    }

    /// Directories of the host that the task sees.
    pub fn mounts(&self) -> &[Bind] {
        &self.mounts
    }

    pub fn set_user(&mut self, user: String) {
        self.user = user;
    }

    /// User of the task, interpolated.
    pub fn user(&self) -> &str {
        &self.user
    }
}
