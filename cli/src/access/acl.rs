//! `acl bootstrap` and what the commands about policies, tokens and roles have in common; each kind is in its file.

mod policy;
mod role;
mod token;

use std::io::Read;

use anyhow::{Context, ensure};
use clap::Subcommand;
use serde_json::{Value, json};

use crate::General;

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Make the first management token.
    Bootstrap {
        #[command(flatten)]
        target: General,
        /// Print the answer as it came.
        #[arg(long)]
        json: bool,
        /// A file with the secret that the token is to have; `-` is the standard input.
        secret: Option<String>,
    },
    /// Policies: apply, delete, info, list.
    #[command(subcommand)]
    Policy(policy::Command),
    /// Tokens: create, update, delete, info, list, self.
    #[command(subcommand)]
    Token(token::Command),
    /// Roles: create, update, delete, info, list.
    #[command(subcommand)]
    Role(role::Command),
}

async fn run(command: Command) -> anyhow::Result<()> {
    match command {
        Command::Bootstrap { target, json, secret } => {
            let body = match secret {
                Some(file) => json!({ "BootstrapSecret": read(&file)?.trim() }),
                None => json!({}),
            };
            let made = target.client()?.put("/v1/acl/bootstrap", &body).await?;
            shown(&made, json, token::show)
        }
        Command::Policy(command) => policy::run(command).await,
        Command::Token(command) => token::run(command).await,
        Command::Role(command) => role::run(command).await,
    }
}

/// Prints an answer as it came, or in words.
pub(crate) fn shown(answer: &Value, json: bool, in_words: impl FnOnce(&Value)) -> anyhow::Result<()> {
    if json {
        crate::outln!("{}", serde_json::to_string_pretty(answer)?);
    } else {
        in_words(answer);
    }
    Ok(())
}

/// A file's text; `-` is the standard input.
pub(crate) fn read(file: &str) -> anyhow::Result<String> {
    if file == "-" {
        let mut text = String::new();
        std::io::stdin().read_to_string(&mut text).context("reading the standard input")?;
        return Ok(text);
    }
    std::fs::read_to_string(file).with_context(|| format!("reading {file}"))
}

/// Refuses a name or an id that would ask for another path.
pub(crate) fn segment(id: &str) -> anyhow::Result<&str> {
    ensure!(!id.is_empty() && !id.contains(['/', '?', '#', '%']), "{id:?} is no name and no id");
    Ok(id)
}

impl crate::Run for Command {
    async fn run(self, _: &crate::Context) -> crate::Outcome {
        run(self).await?;
        Ok(crate::Exit::DONE)
    }
}
