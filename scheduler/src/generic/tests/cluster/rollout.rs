//! Deployments in whole-scheduler stories: health, promotion, and the leader's deployment watcher.

use std::fmt::Write;
use std::sync::Arc;

use songline_commands::{PromoteDeployment, SetDeploymentAllocHealth, UpdateDeploymentStatus};
use songline_model::{AllocId, Deployment, DeploymentStatus, DeploymentStatusUpdate, EvalId};

use super::Cluster;
use crate::leader::deployments::{self, Deployments, Effect};

impl Cluster {
    /// Has the nodes report the health of the newest live alloc of this name.
    pub(super) fn health(&mut self, name: &str, healthy: bool) {
        let live = self.state.allocs().filter(|alloc| alloc.name == *name && !alloc.server_terminal());
        let alloc = live.max_by_key(|alloc| alloc.create_index).expect("a live alloc of this name").clone();
        let ids = vec![alloc.id];
        let (healthy, unhealthy) = if healthy { (ids, Vec::new()) } else { (Vec::new(), ids) };
        self.commit(SetDeploymentAllocHealth {
            deployment_id: alloc.deployment_id.expect("an alloc of a deployment"),
            healthy,
            unhealthy,
            timestamp: self.now,
            ..SetDeploymentAllocHealth::default()
        });
    }

    /// An operator's command about the newest deployment of a job.
    pub(super) fn steer(&mut self, command: &str, id: &str) {
        let deployment = self.newest_deployment(id);
        let status = match command {
            "pause" => DeploymentStatus::Paused,
            "resume" => DeploymentStatus::Running,
            "fail" => DeploymentStatus::Failed,
            _ => {
                let all = PromoteDeployment { deployment_id: deployment.id, all: true, ..PromoteDeployment::default() };
                return self.commit(all);
            }
        };
        let update =
            DeploymentStatusUpdate { deployment_id: deployment.id, status, ..DeploymentStatusUpdate::default() };
        self.commit(UpdateDeploymentStatus { update, ..UpdateDeploymentStatus::default() });
    }

    /// Has a new leader's deployment watcher check all deployments, and carries out its effects.
    pub(super) fn watch_deployments(&mut self) {
        let mut machine = Deployments::new();
        machine.restore(&self.state, self.now);
        let effects = machine.on_time(&self.state, self.now);
        if effects.is_empty() {
            writeln!(self.told, "watch: nothing").unwrap();
        }
        for effect in effects {
            match &effect {
                Effect::Advance { transitions, .. } => {
                    writeln!(self.told, "watch: advance, may reschedule {}", transitions.len()).unwrap();
                }
                Effect::Promote { .. } => writeln!(self.told, "watch: promote").unwrap(),
                Effect::Fail { update, .. } => {
                    writeln!(self.told, "watch: fail, {}", update.status_description).unwrap();
                }
                Effect::Move { update, .. } => writeln!(self.told, "watch: {}", update.status_description).unwrap(),
            }
            let (_, command) = deployments::entry(&self.state, effect, EvalId::from_bytes([0xee; 16]), self.now, 6);
            self.commit(command);
        }
    }

    pub(super) fn tell_deployments(&mut self, id: &str) {
        let deployments: Vec<Arc<Deployment>> = self.state.deployments_of_job("default", id).cloned().collect();
        for deployment in deployments {
            let Deployment { job_version, status, status_description, .. } = &*deployment;
            writeln!(self.told, "deployment of version {job_version} {status}: {status_description}").unwrap();
            for (name, group) in deployment.task_groups.iter().flatten() {
                let canaries: Vec<&AllocId> = group.placed_canaries.iter().flatten().collect();
                let promoted = if group.promoted { ", promoted" } else { "" };
                writeln!(
                    self.told,
                    "  {name}: placed {}, healthy {}, unhealthy {} of {}; canaries {} of {}{promoted}",
                    group.placed_allocs,
                    group.healthy_allocs,
                    group.unhealthy_allocs,
                    group.desired_total,
                    canaries.len(),
                    group.desired_canaries,
                )
                .unwrap();
            }
        }
    }

    /// Prints the live allocs of a job with their versions.
    pub(super) fn tell_allocs(&mut self, id: &str) {
        let live = self.state.allocs_of_job("default", id).filter(|alloc| !alloc.terminal());
        let tell = |alloc: &Arc<songline_model::Allocation>| {
            let version = alloc.job.as_ref().map_or(0, |job| job.version);
            let canary = if alloc.is_canary() { " canary" } else { "" };
            format!("{} v{version}{canary}", alloc.name)
        };
        let mut allocs: Vec<String> = live.map(tell).collect();
        allocs.sort();
        writeln!(self.told, "allocs: {}", allocs.join(", ")).unwrap();
    }

    fn newest_deployment(&self, id: &str) -> Arc<Deployment> {
        self.state.latest_deployment("default", id).expect("a deployment").clone()
    }
}
