//! Bounds of one rendering: a template of a few bytes must not take the machine.

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
        Self { steps: 10_000_000, bytes: 64 << 20 }
    }
}

impl Bounds {
    /// Counts one evaluated node.
    pub(super) fn step(&mut self) -> Result<(), String> {
        self.steps = self.steps.checked_sub(1).ok_or("the template takes too many steps")?;
        Ok(())
    }

    /// Counts bytes that were made.
    pub(super) fn make(&mut self, bytes: usize) -> Result<(), String> {
        self.bytes = self.bytes.checked_sub(bytes).ok_or("the template makes too much text")?;
        Ok(())
    }
}
