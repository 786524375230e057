//! Questions.

use std::io::BufRead;

use crate::exit::{Exit, Failure};
use crate::{out, outln};

/// Asks on standard output, reads a line of standard input. `None`: go on; otherwise the command ends with this exit
/// code. Exactly `y` goes on, nothing and `n..` cancel, `yes` cancels with a hint, anything else fails.
///
/// # Errors
/// Standard input cannot be read.
pub fn confirm(question: &str, cancelled: &str) -> Result<Option<Exit>, Failure> {
    out::write(format_args!("{question} [y/N] "));
    // The question has no line break: it must be seen before the answer is awaited.
    out::bytes(b"");
    let mut line = String::new();
    std::io::stdin().lock().read_line(&mut line).map_err(|error| Failure::of("Failed to parse answer", error))?;
    let answer = line.trim_end_matches(['\r', '\n']);
    Ok(judged(answer, cancelled))
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
}
