//! Functions with pseudo-random results: `uuidv4`, and `bcrypt` with its salt. The caller gives the seed, so that the
//! same text with the same seed gives the same job.

use std::cell::Cell;

use base64::Engine;
use base64::alphabet::BCRYPT;
use base64::engine::{GeneralPurpose, general_purpose::NO_PAD};
use sha2::{Digest, Sha256};

use super::hash::uuid_text;
use super::{Called, Failure, Function, Takes, drawing, fail, integer_of, text_of};
use crate::hcl::value::Value;

pub(super) const FUNCTIONS: &[Function] = &[
    drawing("bcrypt", &[("str", Takes::Text)], Some(("cost", Takes::Number)), bcrypt),
    drawing("uuidv4", &[], None, |_, lots| Ok(Value::Text(uuid_text(&lots.draw(), 4)))),
];

/// Cost of `bcrypt` without an argument.
const DEFAULT_COST: i64 = 10;
/// Costs that the reference accepts.
const COSTS: std::ops::RangeInclusive<i64> = 4..=31;
/// Largest number of bcrypt rounds for all calls in one text: eight hashes of the default cost, or two of cost 12.
/// Prevents a job file from keeping a server busy.
const ROUNDS_MAX: u64 = 1 << 13;

/// Source of pseudo-random numbers.
#[derive(Debug, Default)]
pub(crate) struct Lots {
    entropy: u128,
    drawn: Cell<u64>,
    rounds: Cell<u64>,
}

impl Lots {
    /// A source that is determined by `entropy`.
    pub(crate) fn new(entropy: u128) -> Self {
        Self { entropy, ..Self::default() }
    }

    fn draw(&self) -> [u8; 16] {
        self.drawn.set(self.drawn.get() + 1);
        let digest = Sha256::new()
            .chain_update(self.entropy.to_be_bytes())
            .chain_update(self.drawn.get().to_be_bytes())
            .finalize();
        let mut out = [0; 16];
        out.copy_from_slice(&digest[..16]);
        out
    }
}

fn bcrypt(given: &[Value], lots: &Lots) -> Called {
    if given.len() > 2 {
        return fail("bcrypt() takes no more than two arguments");
    }
    let cost = if given.len() > 1 { integer_of(given, 1)? } else { DEFAULT_COST };
    // As in the reference, a cost that is too low is replaced by the default, and one that is too high is refused.
    let cost = if cost < *COSTS.start() { DEFAULT_COST } else { cost };
    if !COSTS.contains(&cost) {
        return fail(format!(
            "error occured generating password crypto/bcrypt: cost {cost} is outside allowed range (4,31)"
        ));
    }
    let password = text_of(given, 0).as_bytes();
    if password.len() > 72 {
        return fail("error occured generating password bcrypt: password length exceeds 72 bytes");
    }
    let rounds = lots.rounds.get().saturating_add(1 << cost);
    lots.rounds.set(rounds);
    if rounds > ROUNDS_MAX {
        return fail("digests of this cost take longer than a job file may");
    }
    let mut ended = password.to_vec();
    ended.push(0);
    ended.truncate(72);
    let salt = lots.draw();
    let cost = u32::try_from(cost).map_err(|error| Failure::Call(error.to_string()))?;
    let digest = bcrypt::bcrypt(cost, salt, &ended);
    let digits = GeneralPurpose::new(&BCRYPT, NO_PAD);
    Ok(Value::Text(format!("$2a${cost:02}${}{}", digits.encode(salt), digits.encode(&digest[..23]))))
}
