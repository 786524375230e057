//! Compares acknowledged writes with the event stream, for all writers of a run. Not here: collecting either of them.

use anyhow::{Context, Result, ensure};

use crate::stream::PoolEvent;
use crate::writers::UNKNOWN;

/// Counts of a check.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Totals {
    pub acknowledged: u64,
    /// Writes that were sent and never acknowledged. Each may have taken effect once, or not at all.
    pub unknown: u64,
    /// Number of unknown writes that took effect.
    pub happened: u64,
}

/// Checks that every acknowledged write is in the stream once, at its acknowledged index; that no write is there
/// twice; and that a writer's acknowledged writes are in the order of their acknowledgements. `outcomes` are by
/// writer and number, `events` in the order of the stream.
pub fn check(outcomes: &[Vec<u64>], events: &[PoolEvent]) -> Result<Totals> {
    let mut totals = Totals::default();
    let mut found: Vec<Vec<u64>> = outcomes.iter().map(|of_writer| vec![UNKNOWN; of_writer.len()]).collect();
    for event in events {
        let of_writer = found.get_mut(event.writer).with_context(|| format!("nobody wrote {event:?}"))?;
        let place = usize::try_from(event.number).ok().and_then(|number| of_writer.get_mut(number));
        let place = place.with_context(|| format!("nobody wrote {event:?}"))?;
        ensure!(
            *place == UNKNOWN,
            "doubled: write {} of writer {} happened at {} and at {}",
            event.number,
            event.writer,
            *place,
            event.index
        );
        *place = event.index;
    }
    for (writer, (told, found)) in outcomes.iter().zip(&found).enumerate() {
        let mut last = 0;
        for (number, (told, found)) in told.iter().zip(found).enumerate() {
            if *told == UNKNOWN {
                totals.unknown += 1;
                totals.happened += u64::from(*found != UNKNOWN);
                continue;
            }
            totals.acknowledged += 1;
            ensure!(*found != UNKNOWN, "lost: write {number} of writer {writer} was acknowledged at {told}");
            ensure!(
                found == told,
                "write {number} of writer {writer} was acknowledged at {told} and happened at {found}"
            );
            ensure!(
                *told > last,
                "write {number} of writer {writer} happened at {told}, behind one at {last} that it was sent after"
            );
            last = *told;
        }
    }
    Ok(totals)
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    /// Notation: outcomes as `acknowledged indexes by number` for each writer, separated by `/`, with `?` for unknown;
    /// events as `writer.number@index`.
    fn told(outcomes: &str, events: &str, expected: Expect) {
        let outcomes: Vec<Vec<u64>> = outcomes
            .split('/')
            .map(|one| one.split_whitespace().map(|word| word.parse().unwrap_or(UNKNOWN)).collect())
            .collect();
        let events: Vec<PoolEvent> = events
            .split_whitespace()
            .map(|word| {
                let (write, index) = word.split_once('@').unwrap();
                let (writer, number) = write.split_once('.').unwrap();
                PoolEvent {
                    index: index.parse().unwrap(),
                    writer: writer.parse().unwrap(),
                    number: number.parse().unwrap(),
                }
            })
            .collect();
        let text = match check(&outcomes, &events) {
            Ok(totals) => format!("{totals:?}"),
            Err(error) => error.to_string(),
        };
        expected.assert_eq(&text);
    }

    #[test]
    fn write_with_an_unknown_outcome_may_have_happened_once_or_never() {
        told("3 ? ? 9/4", "0.0@3 1.0@4 0.1@5 0.3@9", expect!["Totals { acknowledged: 3, unknown: 2, happened: 1 }"]);
    }

    #[test]
    fn a_lost_write_is_found() {
        told("3 4", "0.0@3", expect!["lost: write 1 of writer 0 was acknowledged at 4"]);
    }

    #[test]
    fn doubled_write_with_an_unknown_outcome_is_found() {
        told("3 ?", "0.0@3 0.1@4 0.1@7", expect!["doubled: write 1 of writer 0 happened at 4 and at 7"]);
    }

    #[test]
    fn a_write_at_another_index_is_found() {
        told("3 4", "0.0@3 0.1@5", expect!["write 1 of writer 0 was acknowledged at 4 and happened at 5"]);
    }

    #[test]
    fn write_order_that_contradicts_the_clients_is_found() {
        told(
            "5 4",
            "0.1@4 0.0@5",
            expect!["write 1 of writer 0 happened at 4, behind one at 5 that it was sent after"],
        );
    }

    #[test]
    fn event_that_no_writer_wrote_is_found() {
        told("5", "0.0@5 7.0@6", expect!["nobody wrote PoolEvent { index: 6, writer: 7, number: 0 }"]);
    }
}
