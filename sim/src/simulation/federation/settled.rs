//! Regions at rest: their shared objects and their parts of jobs in the checkers' forms.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use songline_model::{
    ALL_NODE_POOL, AclAuthMethod, AclBindingRule, AclPolicy, AclRole, AclToken, DEFAULT_NODE_POOL, Job, Namespace,
    NodePool, QuotaSpec,
};
use songline_projections::State;
use tokio::time::Instant;

use super::super::observer::{registration, why};
use super::super::record::Violation;
use super::super::run::{REST_WITHIN, SABOTAGED_REST_WITHIN};
use super::Federation;
use crate::check::{JobAtRest, Objects, Part, Replica, all_have_ended, replica_is_equal};

/// Time for which the regions have to stay as they should be.
const REST_STAYS: Duration = Duration::from_secs(5);

impl Federation {
    /// Checks that every region becomes what it should be, and stays so.
    pub(super) async fn comes_to_rest(&self) {
        if self.record().violation().is_some() {
            return;
        }
        let within = if self.record().sabotage().is_some() { SABOTAGED_REST_WITHIN } else { REST_WITHIN };
        let (since, mut sound_since) = (Instant::now(), None);
        loop {
            match self.verdict() {
                Ok(()) if sound_since.is_some_and(|at: Instant| at.elapsed() >= REST_STAYS) => {
                    let took = u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX);
                    self.record().note(&format!("all regions are as they should after {took} ms"));
                    return self.record().count(|counts| counts.rest_ms = took);
                }
                Ok(()) => drop(sound_since.get_or_insert_with(Instant::now)),
                Err(why) if since.elapsed() >= within => {
                    self.regions.iter().for_each(|region| region.record.tell(region.rows()));
                    return self.record().found(why);
                }
                Err(_) => sound_since = None,
            }
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
    }

    fn verdict(&self) -> Result<(), Violation> {
        let views: Option<Vec<_>> = self.regions.iter().map(|region| Some(region.leading()?.1)).collect();
        let Some(views) = views else { return Err(Violation::Stuck("a region has no leader".to_owned())) };
        let names: Vec<&str> = self.regions.iter().map(|region| region.record.region()).collect();
        let wanted = self.local_tokens.lock().clone();
        let replica = |place: usize| replica(names[place], &views[place], wanted[place].clone());
        let authoritative = replica(self.authoritative);
        for place in 0..views.len() {
            replica_is_equal(&authoritative, &replica(place))?;
        }
        let views: Vec<(&str, &State)> = names.iter().copied().zip(views.iter().map(|view| &**view)).collect();
        all_have_ended(&at_rest(&views))?;
        self.regions.iter().try_for_each(|region| region.jobs())
    }
}

/// The jobs of several regions that these regions have.
fn at_rest(views: &[(&str, &State)]) -> Vec<JobAtRest> {
    let jobs: BTreeSet<String> = views
        .iter()
        .flat_map(|(_, view)| view.jobs().filter(|job| job.is_multiregion()).map(|job| job.id.to_string()))
        .collect();
    jobs.into_iter().filter_map(|id| job_at_rest(views, &id)).collect()
}

fn job_at_rest(views: &[(&str, &State)], id: &str) -> Option<JobAtRest> {
    let newest = views.iter().filter_map(|(_, view)| view.job("default", id)).max_by_key(|job| job.version)?;
    let part = |name: &String| {
        let (_, view) = views.iter().find(|(region, _)| region == name)?;
        view.job("default", id).map(|job| part(view, job))
    };
    let registration = registration(newest)?;
    let parts = registration.regions.iter().map(|name| (name.clone(), part(name))).collect();
    Some(JobAtRest { job: id.to_owned(), registration, parts })
}

fn part(view: &State, job: &Job) -> Part {
    let of_version = view.deployments_of_job(&job.namespace, &job.id).filter(|row| row.job_version == job.version);
    let newest = of_version.max_by_key(|row| row.create_index);
    Part {
        version: job.version,
        is_stopped: job.stop,
        status: newest.map(|row| row.status),
        why: newest.map(|row| why(row)).unwrap_or_default(),
    }
}

/// The shared objects and the local tokens of a region. Indexes are those of its own log, so they do not count.
fn replica(region: &str, view: &State, wanted_tokens: BTreeSet<String>) -> Replica {
    let mut shared: Objects = BTreeMap::new();
    macro_rules! add {
        ($kind:literal, $rows:expr, $row:ident by $key:ident) => {
            for row in $rows {
                let content = $row { create_index: 0, modify_index: 0, ..$row::clone(row) };
                shared.insert(($kind, row.$key.to_string()), digest(serde_json::to_string(&content), ""));
            }
        };
    }
    add!("quota", view.quota_specs(), QuotaSpec by name);
    add!("namespace", view.namespaces(), Namespace by name);
    let is_own = |row: &&Arc<NodePool>| row.name != ALL_NODE_POOL && row.name != DEFAULT_NODE_POOL;
    add!("node pool", view.node_pools().filter(is_own), NodePool by name);
    add!("policy", view.acl_policies(), AclPolicy by name);
    add!("role", view.acl_roles(), AclRole by name);
    add!("auth method", view.acl_auth_methods(), AclAuthMethod by name);
    add!("binding rule", view.acl_binding_rules(), AclBindingRule by id);
    let mut local_tokens = BTreeSet::new();
    for row in view.acl_tokens() {
        if row.global {
            let content = AclToken { create_index: 0, modify_index: 0, ..AclToken::clone(row) };
            shared.insert(
                ("token", row.accessor_id.to_string()),
                digest(serde_json::to_string(&content), &row.secret_id.reveal()),
            );
        } else {
            local_tokens.insert(row.accessor_id.to_string());
        }
    }
    Replica { region: region.to_owned(), shared, local_tokens, wanted_tokens }
}

/// Digest of a row's JSON and of a secret that it does not show.
fn digest(content: serde_json::Result<String>, secret: &str) -> String {
    let content = content.unwrap_or_else(|error| error.to_string());
    blake3::hash(format!("{content} {secret}").as_bytes()).to_hex()[..16].to_owned()
}
