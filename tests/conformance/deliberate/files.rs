//! Files of allocations as the agent shows them.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use super::{World, script};
use crate::fleet::TOKEN;

/// Runs a task that writes files and ends. Returns the id of its allocation, too.
fn ended() -> Result<(World, String)> {
    let world = World::start(true)?;
    world.run("files", "batch", json!({}), script("printf 'hello world' > local/f; echo out; printf x > secrets/s"))?;
    let alloc = world.alloc("files", "complete")?;
    Ok((world, alloc))
}

/// Checks the statuses of errors of a route that reads files.
fn errors_have_their_status(route: &str, more: &str) -> Result<()> {
    let (world, alloc) = ended()?;
    let ask = |token: &str, query: &str| -> Result<(u16, String)> {
        let (status, _, said) =
            world.ask(token, &format!("GET /v1/client/fs/{route}/{alloc}?{query}{more}"), Value::Null)?;
        Ok((status, said.as_str().map_or_else(|| said.to_string(), str::to_owned)))
    };
    let read = ask(TOKEN, "path=t/local/f")?;
    ensure!(read.0 == 200 && "hello world".starts_with(&read.1), "{read:?}");
    let (status, text) = ask(TOKEN, "path=t/local/none")?;
    ensure!(status == 404 && text.ends_with("/t/local/none: no such file or directory"), "{status} {text}");
    let refused = ask("", "path=t/local/f")?;
    ensure!(refused == (403, "Permission denied".to_owned()), "{refused:?}");
    let refused = ask(TOKEN, "")?;
    ensure!(refused == (400, "must provide a file name".to_owned()), "{refused:?}");
    let (status, text) = ask(TOKEN, "path=../../x")?;
    ensure!(status >= 400 && text == "Path escapes the alloc directory", "{status} {text}");
    Ok(())
}

#[test]
fn allocs_fs_cat() -> Result<()> {
    errors_have_their_status("cat", "")
}

#[test]
fn allocs_fs_readat() -> Result<()> {
    errors_have_their_status("readat", "&offset=0&limit=5")
}

/// The names and modes in a directory.
fn listed(world: &World, alloc: &str, path: &str) -> Result<Vec<String>> {
    let shown = world.done(&format!("GET /v1/client/fs/ls/{alloc}?path={path}"), Value::Null)?;
    let told = |entry: &Value| format!("{} {}", entry["Name"], entry["FileMode"]).replace('"', "");
    Ok(shown.as_array().into_iter().flatten().map(told).collect())
}

#[test]
fn allocs_fs_ls() -> Result<()> {
    let (world, alloc) = ended()?;
    let own = listed(&world, &alloc, "t")?;
    let wanted =
        ["executor.out -rw-r--r--", "local drwxrwxrwx", "private drwx------", "secrets drwx------", "tmp dtrwxrwxrwx"];
    ensure!(own == wanted, "{own:?}");
    let logs = listed(&world, &alloc, "alloc/logs")?;
    ensure!(logs == ["t.stderr.0 -rw-r--r--", "t.stdout.0 -rw-r--r--"], "{logs:?}");
    Ok(())
}

#[test]
fn allocs_fs_stat() -> Result<()> {
    let (world, alloc) = ended()?;
    for (path, mode) in [("t/secrets", "drwx------"), ("t/private", "drwx------"), ("t/local", "drwxrwxrwx")] {
        let entry = world.done(&format!("GET /v1/client/fs/stat/{alloc}?path={path}"), Value::Null)?;
        ensure!(entry["FileMode"] == mode && entry["IsDir"] == true, "{path}: {entry}");
    }
    Ok(())
}

#[test]
fn allocs_logs_rotated() -> Result<()> {
    let world = World::start(true)?;
    let mut task = script("head -c 2500000 /dev/zero");
    task["LogConfig"] = json!({"MaxFiles": 3, "MaxFileSizeMB": 1});
    world.run("rotates", "batch", json!({}), task)?;
    let alloc = world.alloc("rotates", "complete")?;
    let logs = listed(&world, &alloc, "alloc/logs")?;
    let names: Vec<&str> = logs.iter().filter_map(|entry| entry.split(' ').next()).collect();
    ensure!(names == ["t.stderr.0", "t.stdout.0", "t.stdout.1", "t.stdout.2"], "{names:?}");
    Ok(())
}
