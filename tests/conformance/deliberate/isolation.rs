//! Confinement of tasks that have a root of their own.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::World;

/// Runs a script in a root of its own to its end, with further configuration. Returns its output; `None`: this machine
/// cannot isolate tasks.
fn output(more: &[(&str, Value)], text: &str) -> Result<Option<String>> {
    if !may_isolate()? {
        return Ok(None);
    }
    let world = World::start(false)?;
    let mut config = json!({"command": "/bin/sh", "args": ["-c", text]});
    for (key, value) in more {
        config[*key] = value.clone();
    }
    world.run("confined", "batch", json!({}), json!({"Driver": "exec", "Config": config}))?;
    let alloc = world.alloc("confined", "complete")?;
    let logs = world.done(&format!("GET /v1/client/fs/logs/{alloc}?task=t&type=stdout&plain=true"), Value::Null)?;
    Ok(Some(logs.as_str().map_or_else(|| logs.to_string(), str::to_owned)))
}

/// Whether this machine can isolate tasks. In CI it has to.
fn may_isolate() -> Result<bool> {
    let Some(missing) = crate::missing_isolation() else { return Ok(true) };
    crate::may_leave_out(missing)?;
    crate::say(&format!("left out: {missing}"));
    Ok(false)
}

#[test]
fn exec_isolation_capabilities() -> Result<()> {
    let show = "grep -E '^(CapEff|CapBnd|CapAmb|NoNewPrivs|Seccomp:)' /proc/self/status | tr '\\t\\n' '  '";
    for (more, wanted) in [
        (
            vec![],
            "CapEff: 0000000000000000 CapBnd: 00000000a80405fb CapAmb: 0000000000000000 NoNewPrivs: 1 Seccomp: 2 ",
        ),
        (
            vec![("cap_drop", json!(["all"])), ("cap_add", json!(["chown"]))],
            "CapEff: 0000000000000001 CapBnd: 0000000000000001 CapAmb: 0000000000000001 NoNewPrivs: 1 Seccomp: 2 ",
        ),
    ] {
        let Some(shown) = output(&more, show)? else { return Ok(()) };
        ensure!(shown == wanted, "{shown:?}");
    }
    Ok(())
}

#[test]
fn exec_isolation_mounts() -> Result<()> {
    let show = "awk '$2 == \"/usr\" || $2 == \"/dev/null\" {split($4, o, \",\"); print $2, o[1]}' /proc/mounts | sort";
    let Some(shown) = output(&[], show)? else { return Ok(()) };
    ensure!(shown == "/dev/null ro\n/usr ro\n", "{shown:?}");
    Ok(())
}

#[test]
fn exec_isolation_oom() -> Result<()> {
    if !may_isolate()? {
        return Ok(());
    }
    let world = World::start(false)?;
    let config = json!({"command": "/bin/dd", "args": ["if=/dev/zero", "of=/dev/null", "bs=200M", "count=1"]});
    let task = json!({"Driver": "exec", "Config": config, "Resources": {"CPU": 50, "MemoryMB": 30}});
    let once = json!({"RestartPolicy": {"Attempts": 0, "Mode": "fail"}, "ReschedulePolicy": {"Attempts": 0}});
    world.run("hungry", "batch", once, task)?;
    let alloc = world.alloc("hungry", "failed")?;
    let state = &world.done(&format!("GET /v1/allocation/{alloc}"), Value::Null)?["TaskStates"]["t"];
    let ended = state["Events"].as_array().into_iter().flatten().find(|event| event["Type"] == "Terminated");
    let details = &ended.context("the end of the task")?["Details"];
    ensure!(details["oom_killed"] == "true" && details["signal"] == "9", "{details}");
    Ok(())
}
