//! The chain of the packet filter that accepts connections to the bridge from elsewhere. Operators may put rules of
//! their own before its rule. The rules of single allocations belong to the plugins.

use std::process::Stdio;
use std::sync::OnceLock;

use tokio::process::Command;

use super::list::ADMIN_CHAIN;
use super::plugins::SEARCH_PATH;
use super::settings::NetworkSettings;

/// The command.
const IPTABLES: &str = "iptables";

/// Creates the chain with its rule where they are missing. The firewall plugin puts the chain into the path of
/// forwarded packets.
pub(super) async fn ensure(settings: &NetworkSettings) -> Result<(), String> {
    // Fails if the chain is there; another failure shows below.
    let _ = iptables(&["-N", ADMIN_CHAIN]).await;
    let rule = [ADMIN_CHAIN, "-o", &settings.bridge_name, "-d", &settings.bridge_subnet, "-j", "ACCEPT"];
    let of = |verb| std::iter::once(verb).chain(rule).collect::<Vec<&str>>();
    if iptables(&of("-C")).await.is_ok() {
        return Ok(());
    }
    iptables(&of("-A")).await.map_err(|error| format!("failed to add a rule to chain {ADMIN_CHAIN}: {error}"))
}

/// Whether the command is there.
pub(super) fn has_command() -> bool {
    static FOUND: OnceLock<bool> = OnceLock::new();
    *FOUND.get_or_init(|| {
        let path = std::env::var("PATH").unwrap_or_default();
        let dirs = path.split(':').chain(SEARCH_PATH.split(':')).filter(|dir| dir.starts_with('/'));
        dirs.map(|dir| std::path::Path::new(dir).join(IPTABLES)).any(|file| file.is_file())
    })
}

async fn iptables(args: &[&str]) -> Result<(), String> {
    let mut command = Command::new(IPTABLES);
    // Waits for other programs that change the filter.
    command.arg("-w").args(args).stdin(Stdio::null()).kill_on_drop(true);
    let path = std::env::var("PATH").unwrap_or_default();
    command.env("PATH", format!("{path}:{SEARCH_PATH}"));
    let output = command.output().await.map_err(|error| format!("running {IPTABLES}: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(String::from_utf8_lossy(&output.stderr).trim().to_owned())
}
