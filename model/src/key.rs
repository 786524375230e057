//! Keys of rows as bytes: digests hash them. The maps of the tables compare the keys themselves.

use crate::{CsiVolumeKey, JobKey, NamespaceName, Str, VariableKey};

/// A key of a table as bytes. They are part of digests that servers compare, so they never change: an id is its 16
/// bytes, a name its text, and a zero byte separates the parts of a longer key.
pub trait KeyBytes {
    /// Appends the bytes.
    fn write_to(&self, out: &mut Vec<u8>);
}

/// Key of a table with at most one row.
impl KeyBytes for () {
    fn write_to(&self, _out: &mut Vec<u8>) {}
}

impl KeyBytes for Str {
    fn write_to(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.as_bytes());
    }
}

impl KeyBytes for u64 {
    fn write_to(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.to_be_bytes());
    }
}

impl<A: KeyBytes, B: KeyBytes> KeyBytes for (A, B) {
    fn write_to(&self, out: &mut Vec<u8>) {
        self.0.write_to(out);
        out.push(0);
        self.1.write_to(out);
    }
}

impl KeyBytes for JobKey {
    fn write_to(&self, out: &mut Vec<u8>) {
        pair(&self.namespace, &self.id, out);
    }
}

impl KeyBytes for CsiVolumeKey {
    fn write_to(&self, out: &mut Vec<u8>) {
        pair(&self.namespace, &self.id, out);
    }
}

impl KeyBytes for VariableKey {
    fn write_to(&self, out: &mut Vec<u8>) {
        pair(&self.namespace, &self.path, out);
    }
}

fn pair(namespace: &NamespaceName, rest: &impl KeyBytes, out: &mut Vec<u8>) {
    namespace.write_to(out);
    out.push(0);
    rest.write_to(out);
}
