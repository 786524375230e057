//! The loop of the leader of a region that is not authoritative: asks for the lists that have changed, compares them with
//! the tables, deletes what only this region has, and fetches and writes what it lacks. One question at a time, so that
//! the kinds are written in their order.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use songline_commands::{Actor, Command};
use songline_model::Str;
use tokio::time::Instant;

use super::super::Core;
use super::super::cluster::peers::AskError;
use super::super::cluster::{decode, encode};
use super::super::leadership::LeadershipTerm;
use super::difference::difference;
use super::{About, Answer, Kind, LISTS_WAIT, List, Question, Rows};

/// Name of the loop in the entries that it writes.
const ACTOR: Str = Str::new_static("replication");
/// Least time between two questions.
const QUESTION_EVERY: Duration = Duration::from_millis(100);
/// Delay after a first failure. It doubles with each further one, up to [`RETRY_WAIT_MAX`].
const RETRY_WAIT: Duration = Duration::from_secs(1);
const RETRY_WAIT_MAX: Duration = Duration::from_secs(30);
/// Timeout of an answer, in addition to the wait that the question permits.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);
/// Most objects of one question and one entry.
const ROWS_MAX: usize = 100;
/// Time without a known server of the authoritative region after which that is logged.
const TELL_AFTER: Duration = Duration::from_secs(10);
/// Most failures that one log line names.
const TOLD_MAX: usize = 5;

/// Starts the loop; it ends with the leadership term. The authoritative region has none.
pub(crate) fn start(core: &Arc<Core>, term: &Arc<LeadershipTerm>) {
    let info = &core.facts.info;
    if info.is_authoritative() {
        return;
    }
    if info.acl.enabled && core.facts.config.replication_token.is_empty() {
        tracing::warn!(
            authoritative = info.authoritative_region,
            "acl.replication_token is not set: nothing of the authoritative region comes here if it has ACLs"
        );
    }
    let follower = Follower::new(Arc::clone(core), Arc::clone(term));
    term.spawn(follower.run());
}

/// Replication in one leadership term.
struct Follower {
    core: Arc<Core>,
    term: Arc<LeadershipTerm>,
    kinds: BTreeMap<Kind, Progress>,
    /// Failures of questions.
    asking: Trouble,
}

/// Replication of one kind.
#[derive(Debug, Default)]
struct Progress {
    /// Index of the last list. 0: there was none, or it has to be compared again.
    index: u64,
    trouble: Trouble,
}

/// Failures in a row.
#[derive(Debug, Default)]
struct Trouble {
    failures: u32,
    told: String,
    /// Time of the next attempt; `None` without failure.
    retry_at: Option<Instant>,
}

impl Trouble {
    /// Records a failure. True if its reason is new, so that each reason is logged once.
    fn note(&mut self, why: &str) -> bool {
        self.failures += 1;
        let wait = RETRY_WAIT.saturating_mul(1 << (self.failures - 1).min(10)).min(RETRY_WAIT_MAX);
        self.retry_at = Some(Instant::now() + wait);
        let is_new = self.told != why;
        why.clone_into(&mut self.told);
        is_new
    }

    /// Ends the failures. True if there were any.
    fn clear(&mut self) -> bool {
        std::mem::take(self).failures > 0
    }
}

impl Follower {
    fn new(core: Arc<Core>, term: Arc<LeadershipTerm>) -> Self {
        let with_acls = core.facts.info.acl.enabled;
        let kinds = Kind::ALL.into_iter().filter(|kind| with_acls || !kind.is_of_acls());
        let kinds = kinds.map(|kind| (kind, Progress::default())).collect();
        Self { core, term, kinds, asking: Trouble::default() }
    }

    async fn run(mut self) {
        let region = self.core.facts.info.authoritative_region.clone();
        loop {
            self.meet(&region).await;
            match self.lists().await {
                Ok(lists) => {
                    if self.asking.clear() {
                        tracing::info!(region, "the authoritative region answers again");
                    }
                    self.carry_out(&lists).await;
                }
                Err(why) => {
                    if self.asking.note(&why) {
                        tracing::warn!(region, why, "the authoritative region cannot be asked; it is tried again");
                    }
                    tokio::time::sleep_until(self.asking.retry_at.unwrap_or_else(Instant::now)).await;
                }
            }
            tokio::time::sleep(QUESTION_EVERY).await;
        }
    }

    /// Waits until a server of the authoritative region is known. After a start that is a matter of seconds.
    async fn meet(&self, region: &str) {
        let (began, mut told) = (Instant::now(), false);
        while self.core.leader_of_region(region).is_empty() {
            if !told && began.elapsed() >= TELL_AFTER {
                tracing::warn!(region, "no server of the authoritative region is known: join one of them");
                told = true;
            }
            tokio::time::sleep(RETRY_WAIT).await;
        }
    }

    /// The lists that have changed, and those of the kinds whose next attempt is due.
    async fn lists(&mut self) -> Result<BTreeMap<Kind, List>, String> {
        let now = Instant::now();
        let mut wait = LISTS_WAIT;
        for progress in self.kinds.values_mut() {
            match progress.trouble.retry_at {
                Some(at) if at <= now => progress.index = 0,
                Some(at) => wait = wait.min(at - now),
                None => {}
            }
        }
        let after = self.kinds.iter().map(|(kind, progress)| (*kind, progress.index)).collect();
        let wait_ms = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
        match self.ask(About::Lists { after, wait_ms }, wait).await? {
            Answer::Lists(lists) => Ok(lists),
            Answer::Rows(_) | Answer::NotLeader => Err("the answer is none to the question".to_owned()),
        }
    }

    /// Makes this region like the lists. Quotas are deleted last: until then namespaces may name them.
    async fn carry_out(&mut self, lists: &BTreeMap<Kind, List>) {
        let mut troubles: BTreeMap<Kind, Vec<String>> = lists.keys().map(|kind| (*kind, Vec::new())).collect();
        for (kind, list) in lists {
            let troubles = troubles.entry(*kind).or_default();
            if *kind != Kind::Quotas {
                self.delete(*kind, list, troubles).await;
            }
            self.write(*kind, list, troubles).await;
        }
        if let Some(list) = lists.get(&Kind::Quotas) {
            self.delete(Kind::Quotas, list, troubles.entry(Kind::Quotas).or_default()).await;
        }
        for (kind, troubles) in troubles {
            let (Some(progress), Some(list)) = (self.kinds.get_mut(&kind), lists.get(&kind)) else { continue };
            progress.index = list.index;
            if troubles.is_empty() {
                if progress.trouble.clear() {
                    tracing::info!(?kind, "the objects are those of the authoritative region again");
                }
                continue;
            }
            let more = troubles.len().saturating_sub(TOLD_MAX);
            let mut why = troubles[..troubles.len() - more].join("; ");
            if more > 0 {
                why.push_str(&format!(" (and {more} more)"));
            }
            if progress.trouble.note(&why) {
                tracing::warn!(?kind, why, "objects could not be replicated; it is tried again");
            }
        }
    }

    /// Deletes the objects that only this region has.
    async fn delete(&self, kind: Kind, list: &List, troubles: &mut Vec<String>) {
        let view = self.core.view();
        let mut surplus = difference(&list.objects, &kind.list(&view)).surplus;
        surplus.retain(|key| match kind.refusal(&view, key) {
            Some(refusal) => {
                troubles.push(refusal.to_string());
                false
            }
            None => true,
        });
        for keys in surplus.chunks(ROWS_MAX) {
            match self.propose(kind.deletion(keys)).await {
                Ok(()) => {}
                Err(why) if keys.len() == 1 => troubles.push(why),
                Err(_) => {
                    for key in keys {
                        let deleted = self.propose(kind.deletion(std::slice::from_ref(key))).await;
                        troubles.extend(deleted.err());
                    }
                }
            }
        }
    }

    /// Fetches and writes the objects that this region lacks or has with another content.
    async fn write(&self, kind: Kind, list: &List, troubles: &mut Vec<String>) {
        let wanted = difference(&list.objects, &kind.list(&self.core.view())).wanted;
        for keys in wanted.chunks(ROWS_MAX) {
            tokio::time::sleep(QUESTION_EVERY).await;
            match self.ask(About::Rows { kind, keys: keys.to_vec() }, Duration::ZERO).await {
                Ok(Answer::Rows(rows)) if rows.kind() == kind => self.write_rows(rows, troubles).await,
                Ok(_) => troubles.push("the answer is none to the question".to_owned()),
                Err(why) => troubles.push(why),
            }
        }
    }

    async fn write_rows(&self, rows: Rows, troubles: &mut Vec<String>) {
        if rows.len() == 0 {
            return;
        }
        let displaced = rows.displaced(&self.core.view());
        if !displaced.is_empty() {
            troubles.extend(self.propose(rows.kind().deletion(&displaced)).await.err());
        }
        let region = Str::new(&self.core.facts.info.region);
        match self.propose(rows.clone().upsert(&region)).await {
            Ok(()) => {}
            Err(why) if rows.len() == 1 => troubles.push(why),
            // One refused row does not keep the others away.
            Err(_) => {
                for row in rows.one_by_one() {
                    troubles.extend(self.propose(row.upsert(&region)).await.err());
                }
            }
        }
    }

    async fn propose(&self, command: Command) -> Result<(), String> {
        let written = self.core.propose_under(&self.term, Actor::Leader(ACTOR), None, command).await;
        written.map(|_| ()).map_err(|error| error.to_string())
    }

    /// Asks the leader of the authoritative region, which may take `wait` for its answer.
    async fn ask(&self, about: About, wait: Duration) -> Result<Answer, String> {
        let region = &self.core.facts.info.authoritative_region;
        let question = encode(&Question { token: self.core.facts.config.replication_token.clone(), about });
        let mut why = format!("no server of region {region:?} is known");
        for address in self.core.leader_of_region(region) {
            match self.core.ask_about_objects(&address, &question, wait + ANSWER_WITHIN).await {
                Ok(answer) => match decode(&answer)? {
                    Answer::NotLeader => why = format!("no server of region {region:?} leads"),
                    answer => return Ok(answer),
                },
                Err(AskError::Refused(refusal)) => return Err(refusal),
                Err(AskError::Unreachable(error) | AskError::Lost(error)) => why = error,
            }
        }
        Err(why)
    }
}
