//! Messages of those who run commands in tasks: what they say is done, or refused with a text of bounded length.

use songline_rpc::{ExecInput, ExecOutput};

#[path = "../../api/src/http/exec/frame.rs"]
mod frame;

/// A message of a session, and the same as a handshake.
pub fn frames(input: &[u8]) {
    let error_bytes_max = 4096 + 8 * input.len();
    match frame::read(input) {
        Err(error) => assert!(error.len() <= error_bytes_max, "{} bytes of error", error.len()),
        Ok(all) => {
            assert!(all.len() <= 3, "a message says at most three things");
            for said in all {
                let ExecInput::Stdin(bytes) = said else { continue };
                assert!(!bytes.is_empty() && bytes.len() <= input.len(), "a message holds what it says");
                let told: serde_json::Value =
                    serde_json::from_str(&frame::text(&ExecOutput::Stdout(bytes))).expect("a message is JSON");
                assert!(told["stdout"]["data"].is_string(), "output is told");
            }
        }
    }
    match frame::read_handshake(input) {
        Err(error) => assert!(error.len() <= error_bytes_max, "{} bytes of error", error.len()),
        Ok(secret) => assert!(secret.len() <= 3 * input.len(), "a secret is what was sent"),
    }
}
