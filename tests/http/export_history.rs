//! `history export`: rows of both formats, an export that is killed and goes on, filters and times, refusals.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;
use serde_json::{Map, Value, json};

use crate::agent::{Agent, Setup};
use crate::story::{Story, WITHIN};

fn command(story: &Story, args: &[&str], dir: &Path) -> Command {
    command_at(story.http(), args, dir)
}

fn command_at(server: SocketAddr, args: &[&str], dir: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_songline"));
    command.args(["history", "export", "-namespace", "*"]).args(args).arg(dir);
    command.env("NOMAD_ADDR", format!("http://{server}")).stdin(Stdio::null());
    command
}

fn ended(story: &Story, args: &[&str], dir: &Path) -> Result<Output> {
    Ok(command(story, args, dir).output()?)
}

/// Runs an export that must succeed, and returns its output.
fn export(story: &Story, args: &[&str], dir: &Path) -> Result<String> {
    let output = ended(story, args, dir)?;
    ensure!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?)
}

/// Message of an export that must fail.
fn refusal(story: &Story, args: &[&str], dir: &Path) -> Result<String> {
    let output = ended(story, args, dir)?;
    ensure!(output.status.code() == Some(1), "{args:?} did not fail");
    Ok(String::from_utf8(output.stderr)?)
}

/// All files of an export, but for its record.
fn files(dir: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir)? {
        let path = entry?.path();
        if path.is_dir() {
            found.extend(files(&path)?);
        } else if !path.ends_with("_progress.json") {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

fn record(dir: &Path) -> Result<Value> {
    Ok(serde_json::from_slice(&std::fs::read(dir.join("_progress.json"))?)?)
}

/// Rows of a file, which must be in the partition of their topic and day and begin with the index of its name.
fn rows_of(file: &Path) -> Result<Vec<Value>> {
    let rows: Vec<Value> = if file.extension().is_some_and(|ending| ending == "jsonl") {
        std::fs::read_to_string(file)?.lines().map(serde_json::from_str).collect::<Result<_, _>>()?
    } else {
        let reader = SerializedFileReader::new(File::open(file)?)?;
        let path = file.display().to_string();
        let topic = path.split("/topic=").nth(1).and_then(|rest| rest.split('/').next()).context("a partition")?;
        reader.get_row_iter(None)?.map(|row| columns(topic, row?.get_column_iter())).collect::<Result<_>>()?
    };
    let name = file.display().to_string();
    for row in &rows {
        let day = row["time"].as_str().and_then(|time| time.get(..10)).context("a row has a time")?;
        let partition = format!("/topic={}/day={day}/part-", row["topic"].as_str().unwrap_or_default());
        ensure!(name.contains(&partition), "{row} is in {name}");
    }
    let first = format!("part-{}.", rows.first().context("a file has rows")?["index"]);
    ensure!(name.contains(&first), "{name} begins with {}", rows[0]["index"]);
    Ok(rows)
}

/// A row of parquet as the JSON that the other format has. The topic is that of the partition.
fn columns<'r>(topic: &str, fields: impl Iterator<Item = (&'r String, &'r Field)>) -> Result<Value> {
    let mut row = Map::from_iter([("topic".to_owned(), json!(topic))]);
    for (name, field) in fields {
        let value = match field {
            Field::Null => Value::Null,
            Field::Bool(value) => json!(value),
            Field::ULong(value) => json!(value),
            Field::Str(text) => json!(text),
            Field::TimestampMicros(micros) => {
                let time = chrono::DateTime::from_timestamp_micros(*micros).context("a time")?;
                json!(time.format("%Y-%m-%dT%H:%M:%S%.6fZ").to_string())
            }
            other => bail!("column {name} is {other:?}"),
        };
        row.insert(name.clone(), value);
    }
    Ok(Value::Object(row))
}

/// All rows of an export, by index.
fn rows(dir: &Path) -> Result<Vec<Value>> {
    let mut rows = Vec::new();
    for file in files(dir)? {
        rows.extend(rows_of(&file)?);
    }
    rows.sort_by_key(|row| row["index"].as_u64());
    Ok(rows)
}

/// A story with two jobs and many node pools, and the index up to which it is told.
fn told() -> Result<(Story, u64)> {
    let story = Story { agent: Agent::start(&Setup::dev())? };
    story.wait("/v1/nodes", |nodes| nodes[0]["Status"] == "ready")?;
    for id in ["web", "db"] {
        let task = json!({"Name": "t", "Driver": "mock_driver", "Config": {"run_for": "1h"}});
        story.put("/v1/jobs", &json!({"Job": {"ID": id, "TaskGroups": [{"Name": "g", "Tasks": [task]}]}}))?;
        story.wait_for_running(id, 1, 0)?;
    }
    for number in 0..60 {
        story.put("/v1/node/pools", &json!({"Name": format!("pool-{number}"), "Description": "one of \"many\"\n"}))?;
    }
    let pools = crate::http::Request::new("GET", "/v1/node/pools");
    let last = story.call(&pools)?.index().context("a list has an index")?;
    Ok((story, last))
}

#[test]
fn both_formats_have_the_same_rows_and_resumed_exports_have_each_once() -> Result<()> {
    let (story, last) = told()?;
    let to = last.to_string();
    let work = tempfile::tempdir()?;
    let (lines, columns) = (work.path().join("lines"), work.path().join("columns"));
    let said = export(&story, &["-format", "jsonl", "-to", &to], &lines)?;
    export(&story, &["-to", &to], &columns)?;
    let all = rows(&lines)?;
    ensure!(said.starts_with(&format!("Exported {} events to ", all.len())), "{said}");
    ensure!(all == rows(&columns)?, "the formats differ");
    ensure!(record(&lines)?["last_index"] == last && record(&lines)?["gaps"] == json!([]), "{}", record(&lines)?);
    ensure!(export(&story, &["-to", &to], &columns)?.starts_with("Nothing to export: "), "it was all there");

    let of = |topic: &str| all.iter().filter(|row| row["topic"] == topic).collect::<Vec<_>>();
    ensure!(
        of("NodePool").iter().filter(|row| row["key"].as_str().is_some_and(|key| key.starts_with("pool-"))).count()
            == 60
    );
    let job = of("Job")[0];
    ensure!(job["job_id"] == "web" && job["actor"] == "anonymous" && job["type"] == "JobRegistered", "{job}");
    let running = of("Allocation").into_iter().find(|row| row["client_status"] == "running");
    let running = running.context("an allocation runs")?;
    let payload: Value = serde_json::from_str(running["payload"].as_str().context("payload is text")?)?;
    for (column, field) in
        [("alloc_id", "ID"), ("node_id", "NodeID"), ("eval_id", "EvalID"), ("task_group", "TaskGroup")]
    {
        ensure!(running[column] == payload["Allocation"][field] && running[column].is_string(), "{running}");
    }

    // Each round is killed after it has committed something; the small parts make commits frequent.
    let killed = work.path().join("killed");
    let args = ["-format", "parquet", "-part-rows", "3", "-to", &to];
    let (mut kills, deadline) = (0, Instant::now() + WITHIN);
    while record(&killed).map_or(true, |record| record["last_index"] != last) {
        let before = record(&killed).ok();
        let mut child = command(&story, &args, &killed).stdout(Stdio::null()).spawn()?;
        while running_without_news(&mut child, before.as_ref(), &killed)? {
            ensure!(Instant::now() < deadline, "the export does not go on");
        }
        kills += usize::from(child.try_wait()?.is_none());
        child.kill()?;
        child.wait()?;
    }
    ensure!(kills > 0, "the export was never killed");
    // As a kill in the last write of the record leaves it.
    std::fs::write(killed.join("._progress.json.tmp"), "{")?;
    export(&story, &args, &killed)?;
    ensure!(rows(&killed)? == all, "after {kills} kills the rows differ");
    Ok(())
}

/// Whether an export runs and its record, after the first, is still as before.
fn running_without_news(child: &mut Child, before: Option<&Value>, dir: &Path) -> Result<bool> {
    let now = record(dir).ok();
    let begun = now.as_ref().is_some_and(|record| record["last_index"] != 0);
    Ok(child.try_wait()?.is_none() && (!begun || now.as_ref() == before))
}

#[test]
fn topics_filters_and_ends_select_rows() -> Result<()> {
    let (story, last) = told()?;
    let work = tempfile::tempdir()?;
    let all = work.path().join("all");
    export(&story, &["-format", "jsonl"], &all)?;
    let all = rows(&all)?;
    let mut number = 0;
    let mut some = |args: &[&str]| -> Result<Vec<Value>> {
        number += 1;
        let dir = work.path().join(number.to_string());
        export(&story, args, &dir)?;
        rows(&dir)
    };
    let want = |passes: &dyn Fn(&Value) -> bool| all.iter().filter(|row| passes(row)).cloned().collect::<Vec<_>>();

    let jobs = some(&["-topic", "Job:web", "-topic", "NodePool:pool-7", "-to", &last.to_string()])?;
    let keys: BTreeSet<&str> = jobs.iter().filter_map(|row| row["key"].as_str()).collect();
    ensure!(keys == BTreeSet::from(["pool-7", "web"]), "{keys:?}");
    let filtered = some(&["-filter", r#"Topic == NodePool and Key matches "pool-1.""#])?;
    ensure!(filtered.len() == 10 && filtered.iter().all(|row| row["topic"] == "NodePool"), "{filtered:?}");

    let pool = |name: &str| -> Result<Value> {
        all.iter().find(|row| row["key"] == name).cloned().with_context(|| format!("{name} was made"))
    };
    let (first, second) = (pool("pool-10")?, pool("pool-20")?);
    let (from, to) = (first["index"].to_string(), second["index"].to_string());
    let between = |row: &Value| {
        row["index"].as_u64() >= first["index"].as_u64() && row["index"].as_u64() <= second["index"].as_u64()
    };
    ensure!(some(&["-from", &from, "-to", &to])? == want(&between), "indexes {from} to {to}");
    let (from, to) = (first["time"].as_str().context("a time")?, second["time"].as_str().context("a time")?);
    let within = |row: &Value| row["time"].as_str() >= Some(from) && row["time"].as_str() <= Some(to);
    ensure!(some(&["-from", from, "-to", to])? == want(&within), "times {from} to {to}");
    Ok(())
}

#[test]
fn exports_that_do_not_fit_are_refused() -> Result<()> {
    let story = Story::begin()?;
    story.wait("/v1/nodes", |nodes| nodes[0]["Status"] == "ready")?;
    let work = tempfile::tempdir()?;
    let dir = work.path().join("out");
    let check = |args: &[&str], dir: &Path, expected: &str| -> Result<()> {
        let said = refusal(&story, args, dir)?;
        ensure!(said.contains(expected), "{args:?}: {said}");
        Ok(())
    };
    check(&["-from", "yesterday"], &dir, r#"-from "yesterday" is not an end of an export: expected a log index, or"#)?;
    check(&["-to", "-5"], &dir, r#"-to "-5" is not an end of an export"#)?;
    check(&["-filter", "Topic =="], &dir, "failed to read filter expression: 1:9 (8)")?;
    check(&["-from", "1000000"], &dir, "The export begins after index 999999, but the newest index of the cluster is")?;
    // None of these has made the directory an export.
    export(&story, &["-format", "jsonl", "-topic", "Node"], &dir)?;
    check(&["-format", "parquet", "-topic", "Node"], &dir, r#"holds an export with -format "jsonl", not "parquet""#)?;
    check(&["-format", "jsonl"], &dir, r#"holds an export with -topic "Node", not """#)?;
    check(
        &["-format", "jsonl", "-topic", "Node", "-filter", "Index > 2"],
        &dir,
        r#"holds an export with -filter "", not"#,
    )?;
    let other = work.path().join("other");
    std::fs::create_dir(&other)?;
    std::fs::write(other.join("mine"), "kept")?;
    check(&[], &other, "is not empty and has no _progress.json: an export does not mix with other files")?;
    ensure!(std::fs::read(other.join("mine"))? == b"kept");
    let lock = File::open(&dir)?;
    lock.lock()?;
    check(&["-format", "jsonl", "-topic", "Node"], &dir, "Another export writes to")
}

/// Answers as a server whose log ends at index 9 and begins at index 4, with entries at 4, 6 and 8. Events of index 3
/// are kept a little longer than their entry. A stream that begins before index 6 is closed after index 4.
fn answer(mut connection: TcpStream) -> Result<()> {
    let mut lines = BufReader::new(connection.try_clone()?).lines();
    let request = lines.next().context("a request")??;
    while lines.next().transpose()?.is_some_and(|line| !line.is_empty()) {}
    let target = request.split(' ').nth(1).context("a target")?;
    let number = |name: &str| -> Option<u64> {
        let (_, rest) = target.split_once(name)?;
        rest.split('&').next()?.parse().ok()
    };
    let event = |index: u64| {
        let event = json!({"Topic": "Job", "Type": "JobRegistered", "Key": "web", "Payload": {"Job": {"ID": "web"}}});
        json!({"Index": index, "Events": [event]})
    };
    let (status, body) = if target.starts_with("/v1/audit") {
        let from = number("from_index=").unwrap_or(4);
        let time = |index: u64| format!("2026-11-{:02}T23:59:59.5Z", 20 + index / 6);
        let entries = [4_u64, 6, 8].into_iter().filter(|index| *index >= from);
        let entries = entries.map(|index| json!({"Index": index, "Time": time(index), "Actor": "anonymous"}));
        (if from < 4 { 410 } else { 200 }, json!(entries.collect::<Vec<_>>()).to_string())
    } else if number("after_index=") == Some(1) {
        let frames =
            [json!({"Index": 0, "Gap": {"Oldest": 3}}), event(3), event(4), json!({"Index": 4, "Closed": "enough"})];
        (200, frames.map(|frame| frame.to_string()).join("\n") + "\n")
    } else {
        ensure!(number("after_index=") == Some(4), "{target}");
        let frames = [json!({}), event(6), event(8), json!({"Index": 9, "CaughtUp": true})];
        (200, frames.map(|frame| frame.to_string()).join("\n") + "\n")
    };
    write!(connection, "HTTP/1.1 {status} X\r\nConnection: close\r\nX-Nomad-Index: 9\r\n\r\n{body}")?;
    Ok(())
}

#[test]
fn gaps_are_told_and_closed_streams_are_resumed() -> Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let server = listener.local_addr()?;
    std::thread::spawn(move || listener.incoming().flatten().try_for_each(answer));
    let work = tempfile::tempdir()?;
    let dir = work.path().join("out");
    let args = ["-format", "jsonl", "-from", "2"];
    let output = command_at(server, &args, &dir).output()?;
    let said = String::from_utf8(output.stderr)?;
    ensure!(output.status.code() == Some(1), "{said}");
    ensure!(said.contains("Events of indexes 2 to 2 are no longer kept: the export has a gap there"), "{said}");
    ensure!(
        said.contains("The event stream ended after index 4: enough\nThe same command goes on after index 4"),
        "{said}"
    );
    ensure!(record(&dir)?["last_index"] == 4 && record(&dir)?["gaps"] == json!([{"from": 2, "to": 2}]));

    // What an interrupted commit leaves behind.
    let day = dir.join("topic=Job/day=2026-11-21");
    std::fs::create_dir_all(&day)?;
    std::fs::write(day.join("part-6.jsonl"), "{}\n")?;
    std::fs::write(day.join(".part-8.jsonl.tmp"), "{")?;
    let output = command_at(server, &args, &dir).output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    ensure!(record(&dir)?["last_index"] == 9, "{}", record(&dir)?);
    let names: Vec<PathBuf> =
        files(&dir)?.iter().filter_map(|file| Some(file.strip_prefix(&dir).ok()?.into())).collect();
    let expected = [
        "topic=Job/day=2026-11-20/part-4.jsonl",
        "topic=Job/day=2026-11-21/part-6.jsonl",
        "topic=Job/day=__HIVE_DEFAULT_PARTITION__/part-3.jsonl",
    ];
    ensure!(names == expected.map(PathBuf::from), "{names:?}");
    ensure!(rows_of(&day.join("part-6.jsonl"))?.len() == 2, "indexes 6 and 8");
    Ok(())
}
