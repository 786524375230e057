//! `alloc exec` on a terminal: how a session is left whose command takes all keys, and the terminal after it.

use std::io::Write;
use std::os::fd::AsFd;

use anyhow::{Context, Result, ensure};
use rustix::process::Signal;
use rustix::termios::{LocalModes, tcgetattr};
use serde_json::json;

use super::Session;
use crate::process;
use crate::story::Story;

/// An allocation in which commands can be run.
fn alloc(story: &Story) -> Result<String> {
    let task = json!({"Name": "t", "Driver": "raw_exec", "Config": {"command": "/bin/sleep", "args": ["86400"]}});
    let group = json!({"Name": "g", "Count": 1, "Tasks": [task]});
    story.put("/v1/jobs", &json!({"Job": {"ID": "shell", "Datacenters": ["dc1"], "TaskGroups": [group]}}))?;
    let allocs = story.wait_for_running("shell", 1, 0)?;
    Ok(allocs[0]["ID"].as_str().context("an allocation has an id")?.to_owned())
}

/// Whether the terminal shows what is typed and edits it in lines.
fn is_cooked(terminal: impl AsFd) -> Result<bool> {
    Ok(tcgetattr(terminal)?.local_modes.contains(LocalModes::ECHO | LocalModes::ICANON))
}

/// A session in which `cat` has the terminal.
fn cat(story: &Story, alloc: &str) -> Result<Session> {
    let mut session = Session::begin(story, &["alloc", "exec", alloc, "/bin/sh", "-c", "echo up; exec cat"])?;
    session.until("up")?;
    ensure!(!is_cooked(&session.keyboard)?, "the keys are edited here");
    Ok(session)
}

#[test]
fn escape_leaves_the_session() -> Result<()> {
    let story = Story::begin()?;
    let mut session = cat(&story, &alloc(&story)?)?;
    session.keyboard.write_all(b"inside ~.\r")?;
    session.until("inside ~.")?;
    session.keyboard.write_all(b"~~two\r")?;
    session.until("~two")?;
    session.keyboard.write_all(b"~.")?;
    let keyboard = session.keyboard.try_clone()?;
    let (shown, exit) = session.end()?;
    ensure!(exit == Some(1) && shown.contains("Connection closed") && !shown.contains("~~two"), "{exit:?}: {shown}");
    ensure!(is_cooked(&keyboard)?, "the terminal is left raw");
    Ok(())
}

#[test]
fn signal_ends_the_session_and_the_terminal_is_as_before() -> Result<()> {
    let story = Story::begin()?;
    let alloc = alloc(&story)?;
    for (signal, code) in [(Signal::TERM, 143), (Signal::INT, 130), (Signal::HUP, 129)] {
        let session = cat(&story, &alloc)?;
        process::signal(i32::try_from(session.child.id())?, signal)?;
        let keyboard = session.keyboard.try_clone()?;
        let (shown, exit) = session.end()?;
        ensure!(exit == Some(code), "{signal:?}: {exit:?}: {shown}");
        ensure!(is_cooked(&keyboard)?, "{signal:?}: the terminal is left raw");
    }
    Ok(())
}
