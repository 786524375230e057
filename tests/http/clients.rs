//! Expectations of existing clients: the agent starts under the reference's name with the configuration of the
//! reference's test server, and answers requests that are newer than the version it implements. Not here: the
//! clients, which are in `tests/clients`.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Output};

use anyhow::{Result, ensure};
use serde_json::json;

/// The program under the name that scripts look for.
fn as_nomad(dir: &Path) -> Result<Command> {
    let program = dir.join("nomad");
    if !program.exists() {
        symlink(env!("CARGO_BIN_EXE_songline"), &program)?;
    }
    Ok(Command::new(program))
}

/// Error of an agent that does not start with this configuration.
fn refusal(dir: &Path, config: &str) -> Result<String> {
    // The reference detects the language from a file's content, not from its name.
    let file = dir.join("config");
    fs::write(&file, config)?;
    let output = as_nomad(dir)?.args(["agent", "-config"]).arg(&file).output()?;
    ensure!(!output.status.success(), "it started");
    Ok(String::from_utf8(output.stderr)?)
}

fn text(output: Output) -> Result<String> {
    ensure!(output.status.success(), "{}", output.status);
    Ok(String::from_utf8(output.stdout)?)
}

#[test]
fn program_named_nomad_prints_a_nomad_version() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let told = text(as_nomad(dir.path())?.arg("-version").output()?)?;
    ensure!(told.starts_with("Nomad v1.6."), "{told}");
    for word in ["version", "--version", "-v"] {
        ensure!(text(as_nomad(dir.path())?.arg(word).output()?)? == told, "{word}");
    }
    let own = text(Command::new(env!("CARGO_BIN_EXE_songline")).arg("-version").output()?)?;
    ensure!(own.starts_with("Songline v"), "{own}");
    Ok(())
}

#[test]
fn an_unknown_key_of_a_configuration_is_named_with_its_file() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let told = refusal(dir.path(), r#"{"data_dri": "/tmp", "server": {"enabled": true}}"#)?;
    ensure!(told.contains("/config: unexpected keys data_dri"), "{told}");
    let told = refusal(dir.path(), "server {\n  enabled = true\n  bootstrap_expct = 1\n}\n")?;
    ensure!(told.contains("server unexpected keys bootstrap_expct"), "{told}");
    let told = refusal(dir.path(), r#"{"server": {"enabled": true}"#)?;
    ensure!(told.contains("/config: "), "{told}");
    Ok(())
}

#[test]
fn go_test_server_configuration_is_accepted_with_warnings_for_keys_without_effect() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let ports: Vec<TcpListener> = (0..3).map(|_| TcpListener::bind("127.0.0.1:0")).collect::<std::io::Result<_>>()?;
    let numbers: Vec<u16> = ports.iter().map(|port| Ok(port.local_addr()?.port())).collect::<std::io::Result<_>>()?;
    // These ports are held open, so that the agent reads its whole configuration and ends before it does anything.
    let config = json!({
        "name": format!("node-{}", numbers[0]), "data_dir": dir.path().join("data"), "disable_update_check": true, "log_level": "ERROR",
        "consul": {"address": "127.0.0.1:8500", "auth": "", "token": ""},
        "advertise": {"http": "127.0.0.1", "rpc": "127.0.0.1", "serf": "127.0.0.1"},
        "ports": {"http": numbers[0], "rpc": numbers[1], "serf": numbers[2]},
        "server": {"enabled": true, "bootstrap_expect": 1, "raft_protocol": 3},
        "client": {"enabled": false, "options": {"test.tighten_network_timeouts": "true"}},
        "vault": {"enabled": false}, "acl": {"enabled": false}, "telemetry": {"prometheus_metrics": true},
    });
    let told = refusal(dir.path(), &config.to_string())?;
    for key in ["disable_update_check", "server.raft_protocol"] {
        ensure!(told.contains(&format!("{key} is accepted and has no effect yet")), "{key}: {told}");
    }
    ensure!(!told.contains("consul is accepted"), "nodes register services there: {told}");
    ensure!(!told.contains("vault is accepted"), "it asks for nothing: {told}");
    ensure!(!told.contains("advertise is accepted"), "it says where others find the agent: {told}");
    ensure!(numbers.iter().any(|port| told.contains(&port.to_string())), "a taken port is what stops it: {told}");
    Ok(())
}
