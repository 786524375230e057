//! Commands that callers run in tasks: with and without a terminal, many at once, callers that disconnect, tasks that
//! end, invalid frames. Not here: refusals, which recorded conversations test.

use std::io::Write;
use std::net::{Shutdown, TcpStream};
use std::process::{Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::{Message, WebSocket, client};

use crate::agent::{Agent, Setup};
use crate::http::Request;
use crate::process::{self, Process};
use crate::story::{Story, WITHIN};

/// A job of one task that only waits, and the id of its running alloc.
fn waiting_task(story: &Story, job: &str) -> Result<String> {
    let task = json!({
        "Name": "t",
        "Driver": "raw_exec",
        "Config": {"command": "/bin/sh", "args": ["-c", "exec sleep 86400"]},
        "Env": {"COLOUR": "blue"},
        "KillTimeout": 1_000_000_000,
        "Resources": {"CPU": 20, "MemoryMB": 16},
    });
    let group = json!({"Name": "g", "Tasks": [task], "Update": {"MaxParallel": 0}});
    story.put(
        "/v1/jobs",
        &json!({"Job": {"ID": job, "Datacenters": ["*"], "TaskGroups": [group], "Update": {"MaxParallel": 0}}}),
    )?;
    let allocs = story.wait_for_running(job, 1, 0)?;
    Ok(allocs[0]["ID"].as_str().context("an alloc's id")?.to_owned())
}

/// A caller's side of a session.
struct Session(WebSocket<TcpStream>);

/// Output of a session, and its end.
#[derive(Debug, Default)]
struct Heard {
    stdout: String,
    stderr: String,
    exit: Option<Value>,
    close: Option<(u16, String)>,
}

impl Session {
    fn begin(story: &Story, alloc: &str, command: &[&str], tty: bool) -> Result<Session> {
        Session::begin_as(story, alloc, command, tty, None)
    }

    /// Begins a session with this token in the request's head.
    fn begin_as(story: &Story, alloc: &str, command: &[&str], tty: bool, token: Option<&str>) -> Result<Session> {
        let command = serde_json::to_string(command)?;
        let escaped: String = command.bytes().map(|byte| format!("%{byte:02X}")).collect();
        let url = format!("ws://{}/v1/client/allocation/{alloc}/exec?task=t&tty={tty}&command={escaped}", story.http());
        Session::open(story, &url, token)
    }

    fn open(story: &Story, url: &str, token: Option<&str>) -> Result<Session> {
        let stream = TcpStream::connect(story.http())?;
        stream.set_read_timeout(Some(WITHIN))?;
        stream.set_write_timeout(Some(WITHIN))?;
        let mut request = url.into_client_request()?;
        if let Some(token) = token {
            request.headers_mut().insert("X-Nomad-Token", token.parse()?);
        }
        let (socket, _) = client(request, stream).map_err(|error| anyhow::anyhow!("{error}"))?;
        Ok(Session(socket))
    }

    fn say(&mut self, what: &Value) -> Result<()> {
        Ok(self.0.send(Message::text(what.to_string()))?)
    }

    fn type_in(&mut self, text: &str) -> Result<()> {
        self.say(&json!({"stdin": {"data": STANDARD.encode(text)}}))
    }

    /// Reads until `enough` holds, or the session is closed.
    fn hear_until(&mut self, heard: &mut Heard, enough: impl Fn(&Heard) -> bool) -> Result<()> {
        while !enough(heard) {
            let message = match self.0.read()? {
                Message::Text(text) => serde_json::from_str::<Value>(&text)?,
                Message::Close(frame) => {
                    heard.close = frame.map(|frame| (frame.code.into(), frame.reason.to_string()));
                    return Ok(());
                }
                Message::Ping(_) | Message::Pong(_) => continue,
                other => bail!("unexpected: {other:?}"),
            };
            for (stream, shown) in [("stdout", &mut heard.stdout), ("stderr", &mut heard.stderr)] {
                let data = STANDARD.decode(message[stream]["data"].as_str().unwrap_or_default())?;
                shown.push_str(&String::from_utf8_lossy(&data));
            }
            if message["exited"] == true {
                heard.exit = Some(message["result"].clone());
            }
        }
        Ok(())
    }

    fn hear_all(&mut self) -> Result<Heard> {
        let mut heard = Heard::default();
        self.hear_until(&mut heard, |_| false)?;
        Ok(heard)
    }
}

fn wait_for_process(program: &str, argument: &str) -> Result<Process> {
    let deadline = Instant::now() + WITHIN;
    while Instant::now() < deadline {
        if let Some(found) = process::running(program, argument).pop() {
            return Ok(found);
        }
        std::thread::yield_now();
    }
    bail!("{program} {argument} was never started")
}

#[test]
fn plain_exec_session_has_the_task_environment_three_streams_and_an_exit_code() -> Result<()> {
    let story = Story::begin()?;
    let alloc = waiting_task(&story, "plain")?;
    let script = "echo $COLOUR $NOMAD_ALLOC_ID; pwd; echo oops >&2; cat; exit 3";
    let mut session = Session::begin(&story, &alloc, &["sh", "-c", script], false)?;
    session.type_in("one\n")?;
    session.type_in("two\n")?;
    session.say(&json!({}))?;
    session.say(&json!({"stdin": {"close": true}}))?;
    let heard = session.hear_all()?;
    ensure!(heard.stdout == format!("blue {alloc}\n/\none\ntwo\n"), "{heard:?}");
    ensure!(heard.stderr == "oops\n", "{heard:?}");
    ensure!(heard.exit == Some(json!({"exit_code": 3})), "{heard:?}");
    ensure!(heard.close == Some((1000, String::new())), "{heard:?}");

    let killed = Session::begin(&story, &alloc, &["sh", "-c", "kill -9 $$"], false)?.hear_all()?;
    ensure!(killed.exit == Some(json!({"exit_code": 137})), "{killed:?}");
    let missing = Session::begin(&story, &alloc, &["no-such-program"], false)?.hear_all()?;
    let (code, reason) = missing.close.context("a close frame")?;
    ensure!(
        code == 1011 && reason.contains("exec: \"no-such-program\": executable file not found in $PATH"),
        "{code} {reason}"
    );

    // More than all buffers on the way hold together, in both directions.
    let mut session =
        Session::begin(&story, &alloc, &["sh", "-c", "head -c 3000000 /dev/zero | tr '\\0' x; wc -c"], false)?;
    let mut heard = Heard::default();
    session.hear_until(&mut heard, |heard| heard.stdout.len() >= 3_000_000)?;
    for _ in 0..50 {
        session.type_in(&"y".repeat(10_000))?;
    }
    session.say(&json!({"stdin": {"close": true}}))?;
    session.hear_until(&mut heard, |_| false)?;
    ensure!(heard.stdout[3_000_000..].trim() == "500000", "{}", &heard.stdout[3_000_000..]);
    Ok(())
}

#[test]
fn exec_session_with_a_terminal_has_a_size_control_keys_and_one_stream() -> Result<()> {
    let story = Story::begin()?;
    let alloc = waiting_task(&story, "terminal")?;
    let script = "read line; stty size; read line; stty size; tty >/dev/null && echo terminal; echo to-err >&2; exec sleep 77001";
    let mut session = Session::begin(&story, &alloc, &["/bin/sh", "-c", script], true)?;
    session.say(&json!({"tty_size": {"height": 24, "width": 80}}))?;
    session.type_in("a\n")?;
    let mut heard = Heard::default();
    session.hear_until(&mut heard, |heard| heard.stdout.contains("24 80\r\n"))?;
    session.say(&json!({"tty_size": {"height": 50, "width": 133}}))?;
    session.type_in("b\n")?;
    session.hear_until(&mut heard, |heard| heard.stdout.contains("to-err\r\n"))?;
    ensure!(heard.stdout.contains("50 133\r\nterminal\r\n"), "{heard:?}");
    wait_for_process("sleep", "77001")?;
    // Ctrl-C.
    session.type_in("\u{3}")?;
    session.hear_until(&mut heard, |_| false)?;
    ensure!(heard.exit == Some(json!({"exit_code": 130})), "{heard:?}");
    ensure!(heard.stderr.is_empty(), "{heard:?}");

    // An interactive shell: with job control, and ended by the end of its input.
    let mut shell = Session::begin(&story, &alloc, &["/bin/sh", "-i"], true)?;
    shell.type_in("sleep 77002 & echo started-$((1+1))\n")?;
    let mut heard = Heard::default();
    shell.hear_until(&mut heard, |heard| heard.stdout.contains("started-2\r\n"))?;
    let left = wait_for_process("sleep", "77002")?;
    shell.say(&json!({"stdin": {"close": true}}))?;
    shell.hear_until(&mut heard, |_| false)?;
    ensure!(heard.exit == Some(json!({})), "{heard:?}");
    ensure!(left.ends_before(Instant::now() + WITHIN), "the session left a process behind");
    Ok(())
}

#[test]
fn exec_session_ends_with_its_caller_its_task_and_its_agent() -> Result<()> {
    let story = Story::begin()?;
    let alloc = waiting_task(&story, "ends")?;
    let begin = |tty, nth: &str| -> Result<(Session, Process, Process)> {
        let script = format!("sleep {nth}1 & exec sleep {nth}2");
        let session = Session::begin(&story, &alloc, &["/bin/sh", "-c", &script], tty)?;
        Ok((session, wait_for_process("sleep", &format!("{nth}1"))?, wait_for_process("sleep", &format!("{nth}2"))?))
    };
    let gone = |processes: [&Process; 2], whose: &str| {
        let deadline = Instant::now() + WITHIN;
        ensure!(processes.iter().all(|process| process.ends_before(deadline)), "a process outlives its {whose}");
        Ok(())
    };
    for (tty, nth) in [(false, "7711"), (true, "7712")] {
        let (session, first, second) = begin(tty, nth)?;
        session.0.get_ref().shutdown(Shutdown::Both)?;
        gone([&first, &second], "caller")?;
    }
    // A command that does not read its input: the caller's disconnect is detected all the same.
    let (mut session, first, second) = begin(false, "7713")?;
    session.0.get_ref().set_write_timeout(Some(Duration::from_millis(300)))?;
    while session.type_in(&"z".repeat(60_000)).is_ok() {}
    session.0.get_ref().shutdown(Shutdown::Both)?;
    gone([&first, &second], "caller who was kept waiting")?;

    let (mut session, first, second) = begin(false, "7714")?;
    story.call(&Request::new("DELETE", "/v1/job/ends"))?;
    gone([&first, &second], "task")?;
    let heard = session.hear_all()?;
    ensure!(heard.exit == Some(json!({"exit_code": 137})) || heard.close.is_some(), "{heard:?}");

    let alloc = waiting_task(&story, "ends-again")?;
    let _plain = Session::begin(&story, &alloc, &["sleep", "77151"], false)?;
    let _terminal = Session::begin(&story, &alloc, &["sleep", "77152"], true)?;
    let (first, second) = (wait_for_process("sleep", "77151")?, wait_for_process("sleep", "77152")?);
    let left = process::descendants(story.agent.pid());
    story.agent.kill()?;
    let ended = gone([&first, &second], "agent");
    for process in left {
        process.kill();
    }
    ended
}

#[test]
fn signal_ends_the_command_line_while_its_streams_are_full() -> Result<()> {
    let story = Story::begin()?;
    let alloc = waiting_task(&story, "full")?;
    // The first command reads no input; the output of the second is not read here.
    for (command, program) in [(["sleep", "77501"], "sleep"), (["yes", "77502"], "yes")] {
        let mut child = Command::new(env!("CARGO_BIN_EXE_songline"))
            .args(["alloc", "exec", "-address", &format!("http://{}", story.http()), "-t=false", &alloc])
            .args(command)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let in_task = wait_for_process(program, command[1])?;
        let (mut stdin, (to, written)) = (child.stdin.take().context("it has input")?, mpsc::channel());
        let writer =
            std::thread::spawn(move || while stdin.write_all(&[b'z'; 60_000]).is_ok() && to.send(()).is_ok() {});
        // Nothing is taken for a while: all buffers on the way are full.
        while written.recv_timeout(Duration::from_millis(500)).is_ok() {}
        let before = written.recv_timeout(Duration::ZERO);
        process::signal(i32::try_from(child.id())?, rustix::process::Signal::TERM)?;
        let ended = process::wait_for_end(i32::try_from(child.id())?, Instant::now() + WITHIN);
        // A process that has ended cannot be killed.
        let _ended = child.kill();
        let status = child.wait()?;
        ensure!(ended && before == Err(RecvTimeoutError::Timeout), "{command:?}: {ended} {before:?} {status}");
        ensure!(status.code() == Some(143), "{command:?}: {status}");
        ensure!(writer.join().is_ok(), "the writer panicked");
        ensure!(in_task.ends_before(Instant::now() + WITHIN), "{command:?} outlives its caller");
    }
    Ok(())
}

#[test]
fn hundred_exec_sessions_run_at_once() -> Result<()> {
    let story = Story::begin()?;
    let alloc = waiting_task(&story, "many")?;
    let began = Instant::now();
    let script = "read word; echo got-$word";
    let mut sessions = Vec::new();
    for nth in 0..100 {
        sessions.push(Session::begin(&story, &alloc, &["/bin/sh", "-c", script], nth % 2 == 0)?);
    }
    // All commands wait for their input now, so all run at the same time.
    for (nth, session) in sessions.iter_mut().enumerate() {
        session.type_in(&format!("{nth}\n"))?;
    }
    for (nth, session) in sessions.iter_mut().enumerate() {
        let heard = session.hear_all()?;
        ensure!(heard.stdout.contains(&format!("got-{nth}")) && heard.exit == Some(json!({})), "{nth}: {heard:?}");
    }
    println!("100 sessions in {:?}", began.elapsed());
    Ok(())
}

#[test]
fn malformed_websocket_frames_end_only_their_exec_session() -> Result<()> {
    let story = Story::begin()?;
    let alloc = waiting_task(&story, "hostile")?;
    let close_after = |frame: &[u8]| -> Result<Option<(u16, String)>> {
        let mut session = Session::begin(&story, &alloc, &["sleep", "77301"], false)?;
        wait_for_process("sleep", "77301")?;
        session.0.get_mut().write_all(frame)?;
        let mut heard = Heard::default();
        // The connection may end without a close frame.
        let _ = session.hear_until(&mut heard, |_| false);
        Ok(heard.close)
    };
    let masked = |first: u8, text: &[u8]| {
        let mut frame = vec![first, 0x80 | u8::try_from(text.len()).expect("short"), 0, 0, 0, 0];
        frame.extend_from_slice(text);
        frame
    };
    let garbage = close_after(&masked(0x81, b"nonsense"))?;
    ensure!(garbage == Some((1011, "invalid character 'o' in literal null (expecting 'u')".to_owned())), "{garbage:?}");
    let kind = close_after(&masked(0x81, br#"{"stdin":{"data":7}}"#))?;
    ensure!(
        kind.is_some_and(|(code, why)| code == 1011 && why.starts_with("json: cannot unmarshal number")),
        "a number"
    );
    let mut huge_ping = vec![0x89, 0xfe, 0xff, 0xff, 0, 0, 0, 0];
    huge_ping.resize(8 + 0xffff, 0);
    for frame in [
        // Not masked; reserved bits set; larger than any limit; a continuation without a start; a close frame of one
        // byte; a huge ping.
        &[0x81, 0x02, b'{', b'}'][..],
        &[0xf1, 0x80, 0, 0, 0, 0],
        &[0x81, 0xff, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0],
        &[0x80, 0x80, 0, 0, 0, 0],
        &[0x88, 0x81, 0, 0, 0, 0, 1],
        &huge_ping,
    ] {
        close_after(frame)?;
    }
    let deadline = Instant::now() + WITHIN;
    for left in process::running("sleep", "77301") {
        ensure!(left.ends_before(deadline), "a session goes on");
    }
    let well = Session::begin(&story, &alloc, &["echo", "well"], false)?.hear_all()?;
    ensure!(well.stdout == "well\n", "{well:?}");
    Ok(())
}

#[test]
fn exec_session_needs_its_capabilities_throughout() -> Result<()> {
    let story = Story { agent: Agent::start(&Setup { acl: true, ..Setup::dev() })? };
    let ask = |method: &str, target: &str, token: &str, body: &Value| -> Result<Value> {
        let answer = story.call(&Request::new(method, target).header("X-Nomad-Token", token).json(body))?;
        Ok(if answer.body.is_empty() { Value::Null } else { answer.json()? })
    };
    let boot = story.call(&Request::new("PUT", "/v1/acl/bootstrap"))?.json()?;
    let boss = boot["SecretID"].as_str().context("a secret")?.to_owned();
    let token_with = |name: &str, capabilities: &str| -> Result<(String, String)> {
        let rules = format!("namespace \"default\" {{ capabilities = [{capabilities}] }}");
        ask("PUT", &format!("/v1/acl/policy/{name}"), &boss, &json!({"Name": name, "Rules": rules}))?;
        let token = ask("PUT", "/v1/acl/token", &boss, &json!({"Name": name, "Type": "client", "Policies": [name]}))?;
        let text = |field: &str| token[field].as_str().map(str::to_owned).context("a token");
        Ok((text("SecretID")?, text("AccessorID")?))
    };
    let (tasks_only, _) = token_with("tasks", "\"alloc-exec\"")?;
    let (nodes_too, accessor) = token_with("nodes", "\"alloc-exec\", \"alloc-node-exec\"")?;
    let config = json!({"command": "/bin/sh", "args": ["-c", "exec sleep 86400"]});
    let task = json!({"Name": "t", "Driver": "raw_exec", "Config": config, "KillTimeout": 1_000_000_000});
    let group = json!({"Name": "g", "Tasks": [task]});
    ask("PUT", "/v1/jobs", &boss, &json!({"Job": {"ID": "guarded", "Datacenters": ["*"], "TaskGroups": [group]}}))?;
    let deadline = Instant::now() + WITHIN;
    let alloc = loop {
        let allocs = ask("GET", "/v1/job/guarded/allocations", &boss, &Value::Null)?;
        if allocs[0]["ClientStatus"] == "running" {
            break allocs[0]["ID"].as_str().context("an alloc's id")?.to_owned();
        }
        ensure!(Instant::now() < deadline, "{allocs}");
    };

    let refused = |token: Option<&str>| -> Result<(u16, String)> {
        let heard = Session::begin_as(&story, &alloc, &["true"], false, token)?.hear_all()?;
        heard.close.context("a close frame")
    };
    ensure!(refused(None)? == (1011, "Permission denied".to_owned()), "nobody");
    ensure!(
        refused(Some(&tasks_only))? == (1011, "Permission denied".to_owned()),
        "alloc-exec alone is not enough for raw_exec"
    );
    let unknown = refused(Some("11111111-2222-3333-4444-555555555555"))?;
    ensure!(unknown == (1011, "rpc error: Permission denied".to_owned()), "{unknown:?}");
    ensure!(refused(Some(&nodes_too))? == (1000, String::new()), "who may");

    // A browser cannot set headers: it sends its token in its first message.
    let url = format!(
        "ws://{}/v1/client/allocation/{alloc}/exec?task=t&ws_handshake=true&command=%5B%22true%22%5D",
        story.http()
    );
    for (secret, close) in [(&nodes_too, (1000, "")), (&tasks_only, (1011, "Permission denied"))] {
        let mut session = Session::open(&story, &url, None)?;
        session.say(&json!({"version": 1, "auth_token": secret}))?;
        let heard = session.hear_all()?;
        ensure!(heard.close == Some((close.0, close.1.to_owned())), "{heard:?}");
    }

    // Deleting the token ends its session.
    let mut session = Session::begin_as(&story, &alloc, &["sleep", "77401"], false, Some(&nodes_too))?;
    let process = wait_for_process("sleep", "77401")?;
    ask("DELETE", &format!("/v1/acl/token/{accessor}"), &boss, &Value::Null)?;
    let heard = session.hear_all()?;
    ensure!(heard.close == Some((1011, "rpc error: Permission denied".to_owned())), "{heard:?}");
    ensure!(process.ends_before(Instant::now() + WITHIN), "the command goes on");
    Ok(())
}
