//! Files with the token of a task. One is the agent's own, from which a later agent takes the token; the other, in the
//! task's secrets, is for the task, and nothing that is written to it later is trusted.

use std::io::{self, Read};

use songline_model::{Secret, Str};

use crate::allocdir::AllocDir;
use crate::beneath::Owner;

/// Name of both files.
const FILE: &str = "vault_token";
/// Most bytes that are read; longer files hold no token.
const BYTES_MAX: u64 = 16 << 10;

/// Places of a task's token.
#[derive(Debug, Clone)]
pub(crate) struct Files {
    pub dir: AllocDir,
    pub task: Str,
    /// Owner of the task's secrets, if it is not the agent's user.
    pub owner: Option<Owner>,
    /// Whether the task gets a file.
    pub for_task: bool,
}

impl Files {
    /// Writes a token. Blocks.
    pub fn write(&self, token: &Secret) -> io::Result<()> {
        self.dir.write_private(&self.task, FILE, token.reveal().as_bytes())?;
        if self.for_task {
            self.dir.write_secret(&self.task, FILE, token.reveal().as_bytes(), self.owner)?;
        }
        Ok(())
    }

    /// The token that an earlier agent wrote; `None` if there is none. Blocks.
    pub fn read(&self) -> Option<Secret> {
        let mut text = String::new();
        self.dir.read_private(&self.task, FILE).ok()?.take(BYTES_MAX).read_to_string(&mut text).ok()?;
        Some(Secret::new(text.trim())).filter(|token| !token.is_empty())
    }
}
