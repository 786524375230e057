//! This server as the HTTP API sees it.

mod shown;

use std::collections::BTreeMap;
use std::fs::File;
use std::sync::Arc;

use axum::extract::Request;
use axum::response::Response;
use songline_api::keyring::Keyring;
use songline_api::sso::Sso;
use songline_api::{
    Agent, AgentInfo, AgentSelf, Cluster, ClusterHealth, Contact, Health, Leader, Leading, Logins, Member, Nodes,
    PassFailure, PlannedJob, Proposal, ProposeError, Reads, Refilling, Regions, RestoreChoices, RestoreError,
    RestoreReport, Route, SavedArchive, SchedulerPool, Schedules, Served, Status, Upkeep, Wellness, WhatIfFailure,
    Writes, Written,
};
use songline_commands::{Actor, Idempotency, ReconcileSummaries};
use songline_events::hub::EventHub;
use songline_events::past::Past;
use songline_events::watch::Watches;
use songline_model::{CsiVolumeKey, EventSink, Job, JobKey, NodeId, Secret, Str, Supposition, Time, WhatIf};
use songline_projections::State;
use songline_rpc::RpcError;
use songline_rpc::message::{ToController, ToCsiNode};
use songline_scheduler::leader::gc::Cutoffs;
use songline_scheduler::what_if;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::{AnyNode, Core, timing, workers};

impl Agent for Core {
    fn fresh_uuid(&self) -> Uuid {
        self.world().uuid()
    }

    fn now(&self) -> Time {
        Core::now(self)
    }

    fn info(&self) -> &AgentInfo {
        &self.facts.info
    }

    fn shutdown(&self) -> &CancellationToken {
        self.shutdown_token()
    }
}

impl Reads for Core {
    fn view(&self) -> Arc<State> {
        Core::view(self)
    }

    async fn read_barrier(&self) -> Result<(), ProposeError> {
        self.log().read_barrier().await.map_err(super::propose_error)
    }

    async fn lease_barrier(&self) -> Result<(), ProposeError> {
        self.log().lease_barrier().await.map_err(super::propose_error)
    }

    fn contact(&self) -> Contact {
        // Without any contact since its start, a server reports the time since its start.
        let last_contact =
            self.log().last_contact().unwrap_or_else(|| Core::now(self).since(self.facts.stable_since).to_std());
        Contact { known_leader: self.log().leadership().borrow().leader.is_some(), last_contact }
    }

    fn watches(&self) -> &Watches {
        Core::watches(self)
    }

    fn events(&self) -> &Arc<EventHub> {
        Core::events(self)
    }

    fn keyring(&self) -> &impl Keyring {
        self
    }

    fn past(&self) -> Option<&dyn Past> {
        Some(self)
    }

    fn takes_event_sink(&self, sink: &EventSink) -> Result<(), String> {
        Core::takes_event_sink(self, sink)
    }

    fn event_sink_reached(&self, name: &str) -> Option<u64> {
        Core::event_sink_reached(self, name)
    }
}

impl Writes for Core {
    async fn propose(&self, proposal: Proposal) -> Result<Written, ProposeError> {
        // Before this term is ready, the leftovers of earlier terms have not been processed yet.
        if self.term().is_none() {
            return Err(ProposeError::NoLeader);
        }
        self.write(proposal).await
    }
}

impl Leading for Core {
    fn leader(&self) -> Leader {
        Core::leader(self)
    }

    async fn leader_other_than(&self, known: &Leader) {
        Core::leader_other_than(self, known).await;
    }

    async fn ready_to_lead(&self) -> Result<(), ProposeError> {
        Core::ready_to_lead(self).await
    }

    async fn pass_on(&self, address: &str, request: Request) -> Result<Response, PassFailure> {
        self.connections.forward.pass_on(address, request).await
    }

    async fn leader_is_deaf(&self, address: &str) {
        self.connections.cluster.deaf(address).await;
    }

    fn disk_trouble(&self) -> Option<String> {
        Core::disk_trouble(self)
    }
}

impl Regions for Core {
    async fn pass_to_region(&self, address: &str, request: Request) -> Result<Response, PassFailure> {
        self.connections.forward_to_region.pass_on(address, request).await
    }

    fn regions(&self) -> Vec<String> {
        self.known_regions()
    }

    fn following_regions(&self) -> Vec<String> {
        self.followers()
    }

    fn servers_of_region(&self, region: &str) -> Vec<String> {
        Core::servers_of_region(self, region)
    }

    fn members_elsewhere(&self) -> Vec<Member> {
        self.seen_in_other_regions().into_iter().map(|seen| self.member(seen)).collect()
    }

    fn forget_member(&self, name: &str) {
        self.forget_in_region(name);
    }
}

impl Cluster for Core {
    fn leader_addr(&self) -> String {
        self.leader_address().unwrap_or_default()
    }

    fn peer_addrs(&self) -> Vec<String> {
        self.server_addresses()
    }

    fn members(&self) -> Vec<Member> {
        self.cluster_members()
    }

    fn cluster_health(&self) -> ClusterHealth {
        self.servers_health()
    }

    async fn join(&self, address: &str) -> Result<(), String> {
        self.meet(address).await
    }

    async fn remove_member(&self, id: &str) -> Result<(), ProposeError> {
        self.remove_server(id).await
    }

    async fn transfer_leadership(&self, id: Option<&str>) -> Result<(), ProposeError> {
        self.hand_over(id).await
    }
}

impl Nodes for Core {
    type Node = AnyNode;

    fn node_agent(&self, node: NodeId, token: Secret) -> Option<Arc<AnyNode>> {
        self.any_node(node, token)
    }

    async fn ask_csi_controller<C: ToController>(&self, plugin: &str, request: C) -> Result<C::Answer, RpcError> {
        self.ask_controller(plugin, request).await
    }

    async fn ask_csi_node<C: ToCsiNode>(&self, node: NodeId, request: C) -> Result<C::Answer, RpcError> {
        self.call_plugin(node, &request).await
    }

    async fn detach_csi_volume(&self, actor: Actor, volume: &CsiVolumeKey, node: NodeId) -> Result<u64, RpcError> {
        self.detach(&actor, volume, node).await
    }

    fn local_node(&self) -> Option<NodeId> {
        self.connections.own_node()
    }
}

impl Schedules for Core {
    async fn plan_job(&self, job: Arc<Job>) -> Result<PlannedJob, ProposeError> {
        let (view, now) = (Core::view(self), Core::now(self));
        let (seed, world) = (self.world().number(), Arc::clone(&self.facts.surroundings.world));
        let planned = self.facts.disk.blocking(move || {
            let started = world.steady();
            let mut planned = songline_scheduler::dry_run::dry_run(&view, Arc::unwrap_or_clone(job), seed, now);
            let took = world.steady().saturating_sub(started);
            timing::stamp_metrics(&mut planned.failed, took);
            planned.created_evals.iter_mut().for_each(|eval| timing::stamp_failures(eval, took));
            planned
        });
        let planned = planned.await.map_err(|error| ProposeError::Unavailable(error.to_string()))?;
        Ok(PlannedJob {
            annotations: Some(planned.annotations),
            preempted: planned.preempted,
            failed_tg_allocs: planned.failed,
            created_evals: planned.created_evals,
        })
    }

    async fn what_if(&self, view: Arc<State>, changes: Vec<Supposition>) -> Result<WhatIf, WhatIfFailure> {
        let _one_of_few = self.what_ifs.try_acquire().map_err(|_| WhatIfFailure::Busy)?;
        let (seed, now) = (self.world().number(), Core::now(self));
        let answer = self.facts.disk.blocking(move || what_if::what_if(&view, &changes, seed, now)).await;
        let answer = answer.map_err(|error| WhatIfFailure::Unavailable(error.to_string()))?;
        answer.map_err(|refusal| WhatIfFailure::Refused(refusal.to_string()))
    }

    fn scheduler_pool(&self) -> SchedulerPool {
        self.workers.shown()
    }

    fn set_scheduler_pool(&self, count: usize, enabled: Vec<&'static str>) {
        if let Some(own) = self.own.upgrade() {
            workers::replace(&own, count, Some(enabled));
            // Wake the waiting workers, so that surplus ones notice that their number was reduced.
            self.leader.work.notify_waiters();
        }
    }
}

impl Upkeep for Core {
    fn bootstrap_reset_index(&self) -> u64 {
        let text = self.facts.disk.read(&self.facts.dir.join("acl-bootstrap-reset")).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        reset_index(&text)
    }

    async fn snapshot_save(&self) -> Result<SavedArchive, ProposeError> {
        self.save_archive().await
    }

    fn spool(&self) -> std::io::Result<File> {
        tempfile::tempfile_in(&self.facts.dir)
    }

    async fn snapshot_restore(
        &self,
        archive: File,
        actor: Actor,
        idempotency: Option<Idempotency>,
        choices: RestoreChoices,
    ) -> Result<RestoreReport, RestoreError> {
        let core = self.own.upgrade().ok_or_else(|| ProposeError::Unavailable("the server is stopping".to_owned()))?;
        core.restore_archive(archive, actor, idempotency, choices).await
    }

    async fn force_gc(&self, actor: Actor) -> Result<(), ProposeError> {
        self.collect_garbage(None, Cutoffs::ALL, &actor).await
    }

    async fn reconcile_summaries(&self, actor: Actor, idempotency: Option<Idempotency>) -> Result<(), ProposeError> {
        let (view, now) = (Core::view(self), Core::now(self));
        let seed = self.world().number();
        let queued = self.facts.disk.blocking(move || queued_by_job(&view, seed, now)).await;
        let queued = queued.map_err(|error| ProposeError::Unavailable(error.to_string()))?;
        let command = ReconcileSummaries { queued };
        self.write(Proposal { actor, cause: None, idempotency, command: command.into() }).await?;
        Ok(())
    }

    fn refillings(&self) -> Vec<Refilling> {
        self.stores.refillings()
    }
}

impl Logins for Core {
    fn sso(&self) -> &Sso {
        &self.sso
    }
}

impl Status for Core {
    fn agent_self(&self) -> AgentSelf {
        self.shown()
    }

    fn metrics(&self) -> String {
        self.metrics_json()
    }

    fn metrics_prometheus(&self) -> String {
        self.metrics_text()
    }

    fn count_served(&self, served: Served) {
        self.metrics.count_served(served);
    }

    fn measure_answer(&self, route: Route, took: std::time::Duration) {
        self.metrics.measure_answer(route, took);
    }

    fn health(&self) -> Health {
        let known = self.log().leadership().borrow().leader.is_some();
        let wrong = self
            .fence
            .why()
            .or_else(|| self.disk_trouble())
            .or_else(|| self.room.check().err().map(|error| error.to_string()));
        let wrong = wrong.or_else(|| (!known).then(|| "no leader".to_owned()));
        let server = Wellness { ok: wrong.is_none(), message: wrong.unwrap_or_else(|| "ok".to_owned()) };
        let client = self.local_node().map(|_| Wellness { ok: true, message: "ok".into() });
        Health { client, server: Some(server) }
    }

    fn fenced(&self) -> Option<String> {
        self.fence.why()
    }

    fn stable_since(&self) -> Time {
        self.facts.stable_since
    }
}

/// For every job, the number of allocations of each group that a scheduler could not place now.
fn queued_by_job(view: &State, seed: u64, now: Time) -> BTreeMap<JobKey, BTreeMap<Str, i64>> {
    let jobs = view.jobs().filter(|job| !job.is_periodic() && !job.is_parameterized());
    jobs.map(|job| (job.key(), songline_scheduler::dry_run::queued(view, job, seed, now))).collect()
}

/// Index in the text of a bootstrap reset file: its leading digits, whatever follows them. 0 when there are none.
fn reset_index(text: &str) -> u64 {
    let text = text.trim_start();
    let digits = text.find(|c: char| !c.is_ascii_digit()).map_or(text, |end| &text[..end]);
    digits.parse().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::reset_index;

    #[test]
    fn bootstrap_reset_index_is_the_leading_digits_of_its_file() {
        for (text, index) in [("12", 12), (" 12\n", 12), ("12abc", 12), ("12 34", 12), ("abc12", 0), ("-1", 0), ("", 0)]
        {
            assert_eq!(reset_index(text), index, "{text:?}");
        }
    }
}
