//! Bounds of one rendering: a template of a few bytes must not take the machine.

use super::Value;

/// Deepest nesting of a value. Printing, comparing and dropping one goes into it recursively.
const VALUE_DEPTH_MAX: usize = 500;
/// Largest size of a value, with shared parts counted as often as they occur.
const VALUE_BYTES_MAX: usize = 128 << 20;
/// Largest text that one call makes, in bytes.
const TEXT_BYTES_MAX: usize = 64 << 20;
/// Number of bytes of arguments that a function reads in one step.
const STEP_BYTES: usize = 512;

/// Refuses a text of so many bytes before a function makes it.
pub(super) fn fits(bytes: usize) -> Result<(), String> {
    if bytes > TEXT_BYTES_MAX {
        return Err(format!("the text is longer than {TEXT_BYTES_MAX} bytes"));
    }
    Ok(())
}

/// Bounds of one rendering.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// Largest number of evaluated nodes.
    pub steps: u64,
    /// Largest number of bytes that are written, or made by functions.
    pub bytes: usize,
}

impl Default for Bounds {
    fn default() -> Self {
        Self { steps: 10_000_000, bytes: TEXT_BYTES_MAX }
    }
}

impl Bounds {
    /// Counts one evaluated node.
    pub(super) fn step(&mut self) -> Result<(), String> {
        self.steps(1)
    }

    fn steps(&mut self, count: u64) -> Result<(), String> {
        self.steps = self.steps.checked_sub(count).ok_or("the template takes too many steps")?;
        Ok(())
    }

    /// Counts the call of a function. One that `reads` its arguments takes time in proportion to their size.
    pub(super) fn call(&mut self, args: &[Value], reads: bool) -> Result<(), String> {
        let bytes = args.iter().fold(0_usize, |bytes, arg| bytes.saturating_add(arg.extent().bytes));
        if bytes > VALUE_BYTES_MAX {
            return Err("the value is too large".to_owned());
        }
        let read = if reads { bytes / STEP_BYTES } else { 0 };
        self.steps(u64::try_from(read).unwrap_or(u64::MAX).saturating_add(1))
    }

    /// Counts what a function has made.
    pub(super) fn made(&mut self, value: &Value) -> Result<(), String> {
        let extent = value.extent();
        if extent.depth > VALUE_DEPTH_MAX {
            return Err("the value is nested too deeply".to_owned());
        }
        if extent.bytes > VALUE_BYTES_MAX {
            return Err("the value is too large".to_owned());
        }
        self.make(value.made())
    }

    /// Counts bytes that were made.
    pub(super) fn make(&mut self, bytes: usize) -> Result<(), String> {
        self.bytes = self.bytes.checked_sub(bytes).ok_or("the template makes too much text")?;
        Ok(())
    }
}
