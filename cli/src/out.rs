//! Standard output and standard error: no panic when the reader has closed the pipe, and colours where they are wanted.

use std::fmt::Arguments;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use crate::exit::Failure;

static COLOURS: AtomicBool = AtomicBool::new(false);

/// Prints a line on standard output.
#[macro_export]
macro_rules! outln {
    () => { $crate::out::write(format_args!("\n")) };
    ($($arg:tt)*) => { $crate::out::write(format_args!("{}\n", format_args!($($arg)*))) };
}

/// Prints a line on standard error.
#[macro_export]
macro_rules! errln {
    ($($arg:tt)*) => { $crate::out::complain(format_args!("{}\n", format_args!($($arg)*))) };
}

/// Writes to standard output. An error ends the process, see [`end`].
pub fn write(text: Arguments<'_>) {
    std::io::stdout().lock().write_fmt(text).unwrap_or_else(|error| end(&error));
}

/// Writes bytes to standard output at once. An error ends the process, see [`end`].
pub fn bytes(bytes: &[u8]) {
    let mut out = std::io::stdout().lock();
    out.write_all(bytes).and_then(|()| out.flush()).unwrap_or_else(|error| end(&error));
}

/// Ends the process because standard output takes no more. A closed pipe is no failure: its reader needs no more.
/// Anything else, such as a full disk, is one.
pub fn end(error: &io::Error) -> ! {
    if error.kind() == io::ErrorKind::BrokenPipe {
        std::process::exit(0);
    }
    self::error(&format!("Error writing standard output: {error}"));
    std::process::exit(1);
}

/// Writes a line to standard output if it is still read: the caller goes on in any case.
pub fn note(text: Arguments<'_>) {
    let _ = std::io::stdout().lock().write_fmt(format_args!("{text}\n"));
}

/// Standard output for answers that are written in pieces. An error of a write ends the process, see [`end`]; dropping
/// the writer flushes it.
pub fn stream() -> impl Write {
    BufWriter::new(Stream(std::io::stdout()))
}

struct Stream(std::io::Stdout);

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(self.0.write(bytes).unwrap_or_else(|error| end(&error)))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush().unwrap_or_else(|error| end(&error));
        Ok(())
    }
}

/// Writes to standard error. There is no place to report that this fails.
pub fn complain(text: Arguments<'_>) {
    let _ = std::io::stderr().lock().write_fmt(text);
}

/// Prints an error on standard error, in red.
pub fn error(text: &str) {
    errln!("{}", paint(Colour::Red, text));
}

/// Prints a warning on standard error, in yellow.
pub fn warning(text: &str) {
    errln!("{}", paint(Colour::Yellow, text));
}

/// Prints the failure of a step after which the command goes on.
pub fn failure(failure: &Failure) {
    error(failure.message());
}

/// A look of text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Colour {
    /// Headings.
    Bold,
    /// Errors, deletions.
    Red,
    /// Additions.
    Green,
    /// Warnings.
    Yellow,
    /// Changes.
    LightYellow,
    /// Moves.
    Blue,
    /// Changes in place.
    Cyan,
}

/// The text in a colour, or as it is where colours are not wanted.
pub fn paint(colour: Colour, text: &str) -> String {
    if !COLOURS.load(Ordering::Relaxed) || text.is_empty() {
        return text.to_owned();
    }
    let code = match colour {
        Colour::Bold => "1",
        Colour::Red => "31",
        Colour::Green => "32",
        Colour::Yellow => "33",
        Colour::LightYellow => "93",
        Colour::Blue => "34",
        Colour::Cyan => "36",
    };
    format!("\x1b[{code}m{text}\x1b[0m")
}

/// Decides about colours: `off` goes before `on`, and without both a terminal has them.
pub(crate) fn choose_colours(off: bool, on: bool) {
    COLOURS.store(!off && (on || std::io::stdout().is_terminal()), Ordering::Relaxed);
}
