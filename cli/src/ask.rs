//! Questions.

use std::io::BufRead;
use std::time::Duration;

use crate::exit::{Exit, Failure};
use crate::{out, outln};

/// Asks on standard output, reads a line of standard input. `None`: go on; otherwise the command ends with this exit
/// code. Exactly `y` goes on, nothing and `n..` cancel, `yes` cancels with a hint, anything else fails.
///
/// # Errors
/// Standard input cannot be read.
pub fn confirm(question: &str, cancelled: &str) -> Result<Option<Exit>, Failure> {
    Ok(judged(&reply(&format!("{question} [y/N]"))?, cancelled))
}

/// An answer about work that is done part by part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// Go on.
    Now,
    /// Go on after this time.
    After(Duration),
    /// End.
    Never,
}

/// Asks on standard output whether to go on, until the answer is one: `y`, nothing or `n..`, or a duration.
///
/// # Errors
/// Standard input cannot be read.
pub fn next(question: &str) -> Result<Next, Failure> {
    loop {
        if let Some(next) = understood(&reply(&format!("{question} [y/N/<wait duration>]"))?) {
            return Ok(next);
        }
        out::error("The answer must be an exact 'y', 'n', or a duration such as 30s.");
    }
}

/// The next line of standard input, empty at its end.
fn reply(question: &str) -> Result<String, Failure> {
    out::write(format_args!("{question} "));
    // The question has no line break: it must be seen before the answer is awaited.
    out::bytes(b"");
    let mut line = String::new();
    std::io::stdin().lock().read_line(&mut line).map_err(|error| Failure::of("Failed to parse answer", error))?;
    Ok(line.trim_end_matches(['\r', '\n']).to_owned())
}

/// The meaning of an answer; `None`: it has none.
fn understood(answer: &str) -> Option<Next> {
    if answer == "y" {
        return Some(Next::Now);
    }
    // The end of the input is an empty answer, so that it ends the questions, too.
    if answer.is_empty() || answer.to_lowercase().starts_with('n') {
        return Some(Next::Never);
    }
    let nanos = songline_lang::duration::parse(answer).ok()?;
    u64::try_from(nanos).ok().map(|nanos| Next::After(Duration::from_nanos(nanos)))
}

fn judged(answer: &str, cancelled: &str) -> Option<Exit> {
    let lower = answer.to_lowercase();
    if answer == "y" {
        return None;
    }
    if lower.is_empty() || lower.starts_with('n') {
        outln!("{cancelled}");
        return Some(Exit::DONE);
    }
    if lower.starts_with('y') {
        outln!("For confirmation, an exact \u{2018}y\u{2019} is required.");
        return Some(Exit::DONE);
    }
    out::error("No confirmation detected. For confirmation, an exact 'y' is required.");
    Some(Exit::FAILED)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_y_goes_on() {
        let exits = ["y", "", "no", "N", "yes", "Y", "x"].map(|answer| judged(answer, "Cancelled").map(Exit::number));
        assert_eq!(exits, [None, Some(0), Some(0), Some(0), Some(0), Some(0), Some(1)]);
    }

    #[test]
    fn durations_go_on_after_a_wait() {
        let answers = ["y", "1m30s", "0", "", "n", "No"].map(understood);
        let after = |seconds| Some(Next::After(Duration::from_secs(seconds)));
        let never = Some(Next::Never);
        assert_eq!(answers, [Some(Next::Now), after(90), after(0), never, never, never]);
        for answer in ["yes", "Y", "5", "-1s", "x"] {
            assert_eq!(understood(answer), None, "{answer}");
        }
    }
}
