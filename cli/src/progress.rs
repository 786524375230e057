//! Progress of long work: a line on standard error where that is a terminal, and nothing elsewhere. It is gone when the
//! work has ended.

use std::io::Read;

use indicatif::{ProgressBar, ProgressStyle};

/// A line with the state of some work. Dropping it removes the line.
#[derive(Debug)]
pub struct Progress(ProgressBar);

impl Progress {
    /// Work on so many things.
    pub fn of(work: &'static str, total: u64) -> Self {
        Self::new(ProgressBar::new(total), work, "{msg} {bar:30} {human_pos}/{human_len}, {eta} left")
    }

    /// Work on so many bytes.
    pub fn of_bytes(work: &'static str, total: u64) -> Self {
        Self::new(ProgressBar::new(total), work, "{msg} {bar:30} {binary_bytes}/{binary_total_bytes}, {eta} left")
    }

    /// Work on bytes whose number is not known.
    pub fn of_stream(work: &'static str) -> Self {
        Self::new(ProgressBar::no_length(), work, "{msg} {spinner} {binary_bytes}, {binary_bytes_per_sec}")
    }

    fn new(bar: ProgressBar, work: &'static str, template: &str) -> Self {
        // A template of this file that is wrong leaves the default style.
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        bar.set_message(work);
        Self(bar)
    }

    /// So many more are done.
    pub fn advance(&self, by: u64) {
        self.0.inc(by);
    }

    /// The reader, whose bytes advance the work.
    pub fn reading(&self, reader: impl Read) -> impl Read {
        self.0.wrap_read(reader)
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_that_are_read_advance_the_work() {
        let progress = Progress::of_bytes("reading", 5);
        let mut text = String::new();
        progress.reading(&b"bytes"[..]).read_to_string(&mut text).expect("memory does not fail");
        progress.advance(2);
        assert_eq!((text.as_str(), progress.0.position()), ("bytes", 7));
        for progress in [Progress::of("work", 1), Progress::of_stream("work")] {
            progress.advance(1);
        }
    }

    #[test]
    fn templates_are_sound() {
        for template in [
            "{msg} {bar:30} {human_pos}/{human_len}, {eta} left",
            "{msg} {spinner} {binary_bytes}, {binary_bytes_per_sec}",
        ] {
            assert!(ProgressStyle::with_template(template).is_ok(), "{template}");
        }
    }
}
