//! Keys that the blocks about other systems share: the certificates of connections to them.

use anyhow::bail;
use serde_json::Value;
use songline_client::tls::Trust;

use super::{is_empty, set, text};

/// The keys `cert_file` and `key_file` of a block, which have an effect together only.
#[derive(Default)]
pub(super) struct Certificates {
    certificate: String,
    key: String,
}

impl Certificates {
    /// Takes `ca_file`, `cert_file` or `key_file`. An empty value changes nothing.
    pub fn take(&mut self, key: &str, value: &Value, trust: &mut Trust) -> anyhow::Result<()> {
        match key {
            "cert_file" => set(&mut self.certificate, text(key, value)?),
            "key_file" => set(&mut self.key, text(key, value)?),
            _ if is_empty(value) => {}
            _ => trust.ca_file = Some(text(key, value)?.into()),
        }
        Ok(())
    }

    /// Ends the block. Only one of the two files is an error.
    pub fn end(self, block: &str, trust: &mut Trust) -> anyhow::Result<()> {
        match (self.certificate.is_empty(), self.key.is_empty()) {
            (false, false) => trust.own_files = Some((self.certificate.into(), self.key.into())),
            (true, true) => {}
            _ => bail!("{block}: cert_file and key_file belong together"),
        }
        Ok(())
    }
}
