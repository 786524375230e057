//! Compares a replay with digests that were recorded while the log was written. A difference names the table and the
//! two indexes between which it arose.
//!
//! Replaying is not done here. Digests of the last indexes are kept, because a leader records a digest some entries
//! after its index.

use std::collections::VecDeque;

use anyhow::bail;
use songline_commands::CheckDigest;
use songline_projections::{Digest, State, Table};

/// Number of indexes for which digests are kept. A leader's digest is a handful of entries old.
const KEPT: usize = 4096;

/// Digests of a replay so far, and the last index at which they agreed with the recorded ones.
pub(crate) struct Comparison {
    /// Digests by index, newest last.
    seen: VecDeque<(u64, Vec<(Table, Digest)>)>,
    /// The last index at which everything agreed.
    agreed: u64,
    /// Number of the leader's digests that agreed.
    pub(crate) told: usize,
}

impl Comparison {
    /// Begins with a state that is assumed to be right.
    pub(crate) fn new(state: &State) -> Self {
        Self {
            seen: VecDeque::from([(state.applied_index(), state.table_digests())]),
            agreed: state.applied_index(),
            told: 0,
        }
    }

    /// Records the digests of the state after an entry.
    pub(crate) fn replayed(&mut self, state: &State) {
        if self.seen.len() == KEPT {
            self.seen.pop_front();
        }
        self.seen.push_back((state.applied_index(), state.table_digests()));
    }

    /// Compares with the table digests of `source` at an index. An error names the table and the indexes.
    pub(crate) fn compare(&mut self, index: u64, theirs: &[(Table, Digest)], source: &str) -> anyhow::Result<()> {
        let Some(ours) = self.at(index) else { return Ok(()) };
        let differing: Vec<_> =
            theirs.iter().filter(|digest| !ours.contains(digest)).map(|(table, _)| table.name()).collect();
        if !differing.is_empty() {
            bail!("{}", self.difference(&differing, index, source));
        }
        self.agreed = self.agreed.max(index);
        Ok(())
    }

    /// Compares with a digest that a leader recorded. A digest of an older version has no tables.
    pub(crate) fn compare_told(&mut self, told: &CheckDigest) -> anyhow::Result<()> {
        let source = "the digest in the log";
        let Some(ours) = self.at(told.through) else { return Ok(()) };
        let total = ours.iter().fold(Digest::ZERO, |sum, (_, digest)| sum.plus(*digest));
        let differing: Vec<_> = ours
            .iter()
            .filter(|(table, digest)| told.tables.get(table.name()).is_some_and(|theirs| theirs.0 != digest.as_bytes()))
            .map(|(table, _)| table.name())
            .collect();
        if !differing.is_empty() || told.total.0 != total.as_bytes() {
            let tables = if differing.is_empty() { vec!["(not told which)"] } else { differing };
            bail!("{}", self.difference(&tables, told.through, source));
        }
        self.agreed = self.agreed.max(told.through);
        self.told += 1;
        Ok(())
    }

    fn at(&self, index: u64) -> Option<&Vec<(Table, Digest)>> {
        // An entry without a command keeps the index: the newest state at an index counts.
        self.seen.iter().rev().find(|(seen, _)| *seen == index).map(|(_, digests)| digests)
    }

    fn difference(&self, tables: &[&str], index: u64, source: &str) -> String {
        format!(
            "table {} is not what {source} says at index {index}: it differs since an index above {}",
            tables.join(", "),
            self.agreed
        )
    }
}

#[cfg(test)]
mod tests {
    use songline_commands::{Actor, Envelope, UpsertNamespaces};
    use songline_model::{Blob, Namespace, Time};

    use super::*;

    fn write(state: &mut State, name: &str) {
        let command = UpsertNamespaces { namespaces: vec![Namespace { name: name.into(), ..Namespace::default() }] };
        let next = state.raft_index() + 1;
        songline_projections::apply(state, next, &Envelope::new(Time::from_secs(1), Actor::Anonymous, command));
    }

    fn told(state: &State) -> CheckDigest {
        let blob = |digest: Digest| Blob(digest.as_bytes().to_vec());
        CheckDigest {
            schema: songline_projections::SCHEMA,
            through: state.applied_index(),
            total: blob(state.digest()),
            tables: state
                .table_digests()
                .into_iter()
                .map(|(table, digest)| (table.name().into(), blob(digest)))
                .collect(),
        }
    }

    #[test]
    fn replay_difference_names_the_table_and_the_last_agreeing_index() {
        let (mut leader, mut replay) = (State::new(), State::new());
        let mut comparison = Comparison::new(&replay);
        for name in ["a", "b"] {
            write(&mut leader, name);
            write(&mut replay, name);
            comparison.replayed(&replay);
        }
        comparison.compare_told(&told(&leader)).expect("agrees");
        let agreed = leader.applied_index();
        write(&mut leader, "c");
        write(&mut replay, "see");
        comparison.replayed(&replay);
        let expected = |source: &str| {
            let index = agreed + 1;
            format!(
                "table namespaces is not what {source} says at index {index}: it differs since an index above {agreed}"
            )
        };
        let error = comparison.compare_told(&told(&leader)).expect_err("differs");
        assert_eq!(error.to_string(), expected("the digest in the log"));
        let error =
            comparison.compare(leader.applied_index(), &leader.table_digests(), "the checkpoint").expect_err("differs");
        assert_eq!(error.to_string(), expected("the checkpoint"));
    }
}
