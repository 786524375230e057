//! Answers of the authoritative region's leader to the leaders of other regions. Objects have secrets, so with ACLs each
//! answer needs a management token; between servers alone, a question proves that its sender is a server of some region.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use songline_api::Reads as _;
use songline_events::watch::WatchKey;
use songline_model::{Secret, SecretId};
use songline_projections::State;
use tokio::time::Instant;

use super::super::Core;
use super::super::cluster::{decode, encode};
use super::{About, Answer, Kind, LISTS_WAIT, List, Question};

impl Core {
    /// Answers a question of another region about the objects of all regions. `Err` is the refusal.
    pub(crate) async fn answer_region(&self, question: &[u8]) -> Result<Bytes, String> {
        let Question { token, about } = decode(question)?;
        let info = &self.facts.info;
        if !info.is_authoritative() {
            let (own, other) = (&info.region, &info.authoritative_region);
            return Err(format!("region {own:?} is not authoritative: its authoritative region is {other:?}"));
        }
        let Some(term) = self.term() else { return Ok(encode(&Answer::NotLeader)) };
        if self.lease_barrier().await.is_err() {
            return Ok(encode(&Answer::NotLeader));
        }
        let answer = match about {
            About::Rows { kind, keys } => {
                let view = self.view();
                self.permit(&view, &token, [kind])?;
                Answer::Rows(kind.rows(&view, &keys))
            }
            About::Lists { after, wait_ms } => tokio::select! {
                lists = self.lists(&token, after, Duration::from_millis(wait_ms).min(LISTS_WAIT)) => Answer::Lists(lists?),
                () = term.over() => Answer::NotLeader,
            },
        };
        Ok(encode(&answer))
    }

    /// Lists of the kinds that have changed after their index, as soon as there are any; all of them after `wait`.
    async fn lists(
        &self,
        token: &Secret,
        after: BTreeMap<Kind, u64>,
        wait: Duration,
    ) -> Result<BTreeMap<Kind, List>, String> {
        let deadline = Instant::now() + wait;
        let keys: Vec<WatchKey> = after.keys().map(|kind| WatchKey::Table(kind.table())).collect();
        // Registered before the view is taken: a change between the two wakes the question.
        let watch = self.watches().register(&keys);
        loop {
            // Asked before the view is taken: the new state is published before its watchers are told of it. Indexes of
            // an imported state may be lower than before.
            let is_state_replaced = watch.is_state_replaced();
            let view = self.view();
            self.permit(&view, token, after.keys().copied())?;
            let is_late = is_state_replaced || Instant::now() >= deadline;
            let index = |kind: Kind| view.table_index(kind.table()).max(1);
            let news = after.iter().filter(|(kind, after)| is_late || index(**kind) > **after);
            let lists: BTreeMap<Kind, List> =
                news.map(|(kind, _)| (*kind, List { index: index(*kind), objects: kind.list(&view) })).collect();
            if is_late || !lists.is_empty() {
                return Ok(lists);
            }
            tokio::select! {
                () = watch.changed() => {}
                () = tokio::time::sleep_until(deadline) => {}
            }
        }
    }

    /// Refuses a token that does not permit to read these kinds with their secrets.
    fn permit(&self, view: &State, token: &Secret, kinds: impl IntoIterator<Item = Kind>) -> Result<(), String> {
        if !self.facts.info.acl.enabled {
            let of_acls = kinds.into_iter().any(Kind::is_of_acls);
            return if of_acls { Err("ACL support disabled".to_owned()) } else { Ok(()) };
        }
        let secret = token.reveal().parse::<SecretId>().ok();
        let known = secret.and_then(|secret| view.acl_token_by_secret(&secret));
        match known {
            Some(token) if token.is_expired(self.now()) => Err("ACL token expired".to_owned()),
            Some(token) if token.is_management() => Ok(()),
            Some(_) | None => Err("Permission denied".to_owned()),
        }
    }
}
