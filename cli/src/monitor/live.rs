//! A deployment on a terminal: a block that is redrawn in its place under a spinner, and a mark when it has ended. Not
//! here: reading the deployment, and its words.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::layout::indented;
use crate::out::{Colour, paint};
use crate::outln;

/// Time between two pictures of the spinner.
const TICK: Duration = Duration::from_millis(100);

/// The spinner with its title, and the block below it.
const TEMPLATE: &str = "  {spinner} {prefix}\n\n{msg}";

/// Whether standard output is a terminal on which lines can be redrawn.
pub(super) fn is_possible() -> bool {
    !ProgressDrawTarget::stdout().is_hidden()
}

/// The block of one deployment on a terminal. Dropping it removes the block.
#[derive(Debug)]
pub(super) struct Drawing {
    id: String,
    bar: ProgressBar,
}

impl Drawing {
    /// Draws the spinner. `id` is the id as it is shown.
    pub(super) fn begin(id: &str) -> Self {
        Self::on(ProgressDrawTarget::stdout(), id)
    }

    fn on(target: ProgressDrawTarget, id: &str) -> Self {
        let bar = ProgressBar::with_draw_target(None, target);
        // A template of this file that is wrong leaves the default style.
        if let Ok(style) = ProgressStyle::with_template(TEMPLATE) {
            bar.set_style(style);
        }
        bar.set_prefix(format!("Deployment \"{id}\" in progress..."));
        bar.enable_steady_tick(TICK);
        Self { id: id.to_owned(), bar }
    }

    /// Puts a block in the place of the one before.
    pub(super) fn draw(&self, block: &str) {
        self.bar.set_message(indented(block, "    "));
    }

    /// Removes the drawing, and prints the mark of the last status and the block. A terminal with fewer lines than the
    /// block has shown only its beginning until now.
    pub(super) fn end(&self, status: &str, block: &str) {
        self.bar.finish_and_clear();
        outln!("{}", ended(&self.id, status, block));
    }
}

impl Drop for Drawing {
    fn drop(&mut self) {
        if !self.bar.is_finished() {
            self.bar.finish_and_clear();
        }
    }
}

/// The mark of a deployment that has ended, and its block.
fn ended(id: &str, status: &str, block: &str) -> String {
    let (mark, colour) = if status == "successful" { ("\u{2713}", Colour::Green) } else { ("!", Colour::Red) };
    format!("  {} Deployment \"{id}\" {status}\n\n{}", paint(colour, mark), indented(block, "    "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mark_tells_how_the_deployment_ended() {
        let shown = ended("0c7d1f22", "successful", "ID     = 0c7d1f22\nStatus = successful");
        let expected =
            "  \u{2713} Deployment \"0c7d1f22\" successful\n\n    ID     = 0c7d1f22\n    Status = successful";
        assert_eq!(shown, expected);
        for status in ["failed", "cancelled"] {
            let shown = ended("0c7d1f22", status, "");
            assert!(shown.starts_with(&format!("  ! Deployment \"0c7d1f22\" {status}\n")), "{shown}");
        }
    }

    #[test]
    fn block_is_replaced_under_the_spinner() {
        let drawing = Drawing::on(ProgressDrawTarget::hidden(), "0c7d1f22");
        assert_eq!(drawing.bar.prefix(), "Deployment \"0c7d1f22\" in progress...");
        for block in ["Status = running", "Status = failed\nDescription = x"] {
            drawing.draw(block);
        }
        assert_eq!(drawing.bar.message(), "    Status = failed\n    Description = x");
        assert!(ProgressStyle::with_template(TEMPLATE).is_ok(), "{TEMPLATE}");
    }
}
