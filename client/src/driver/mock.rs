//! `mock_driver`: simulates tasks as their options describe, for tests. Starts no process.

mod canned;

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use songline_model::{Blob, Dur, Str};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::session::{Command, CommandEnd, Ends};
use super::{Boxed, Driver, DriverNetwork, Fingerprint, Process, RunId, TaskConfig, block, text};
use crate::config::ClientConfig;
use crate::core::{ExitResult, StartFailure};
use crate::rotate::RotatingFile;
use crate::stats::{Detail, TaskUsage};
use canned::Canned;

/// The driver.
pub struct Mock {
    started: std::time::Instant,
    shutdown_after: Option<Duration>,
    /// Runs since the agent's start, so that recovering a run twice gives the same process.
    known: Arc<parking::Runs>,
}

/// Options in a task's `config` block.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
struct Options {
    start_error: String,
    start_error_recoverable: bool,
    start_block_for: Dur,
    run_for: Dur,
    exit_code: i64,
    exit_signal: i64,
    exit_err_msg: String,
    kill_after: Dur,
    plugin_exit_after: Dur,
    signal_error: String,
    driver_ip: String,
    driver_advertise: bool,
    driver_port_map: String,
    stdout: Output,
    stderr: Output,
    exec_command: Option<Canned>,
}

/// Simulated output of a task.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
struct Output {
    string: String,
    repeat: u64,
    repeat_duration: Dur,
}

/// Handle for recovery after an agent's restart.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Handle {
    options: Options,
    started_at: i64,
}

/// All known options.
const OPTIONS: &[&str] = &[
    "start_error",
    "start_error_recoverable",
    "start_block_for",
    "run_for",
    "exit_code",
    "exit_signal",
    "exit_err_msg",
    "kill_after",
    "plugin_exit_after",
    "signal_error",
    "driver_ip",
    "driver_advertise",
    "driver_port_map",
    "stdout_string",
    "stdout_repeat",
    "stdout_repeat_duration",
    "stderr_string",
    "stderr_repeat",
    "stderr_repeat_duration",
    "exec_command",
];

impl Mock {
    /// Always detected; with `shutdown_periodic_after` it becomes undetected after `shutdown_periodic_duration`.
    pub fn new(config: &ClientConfig) -> Self {
        let after =
            config.plugins.get("mock_driver").and_then(|options| options.get("shutdown_periodic_duration")?.as_i64());
        let goes_away = config.plugin_flag("mock_driver", "shutdown_periodic_after", false);
        Self {
            started: std::time::Instant::now(),
            shutdown_after: goes_away.then(|| Dur(after.unwrap_or(0)).to_std()),
            known: Arc::default(),
        }
    }
}

impl Driver for Mock {
    fn fingerprint(&self) -> Boxed<'_, Fingerprint> {
        let mut print = Fingerprint::healthy("mock_driver");
        print.attributes = [("driver.mock".into(), "true".into())].into();
        if self.shutdown_after.is_some_and(|after| self.started.elapsed() > after) {
            print = Fingerprint::undetected("disabled");
        }
        Box::pin(std::future::ready(print))
    }

    fn validate(&self, config: &Map<String, Value>) -> Result<(), String> {
        if let Some(unknown) = config.keys().find(|key| !OPTIONS.contains(&key.as_str())) {
            return Err(format!("Invalid label: No argument or block type is named {unknown:?}."));
        }
        options(config).map(drop)
    }

    fn start(&self, task: TaskConfig) -> Boxed<'_, Result<Arc<dyn Process>, StartFailure>> {
        Box::pin(async move {
            let fail = |error: String, recoverable| StartFailure { error: error.into(), recoverable };
            let options = options(&task.config).map_err(|error| fail(error, false))?;
            tokio::time::sleep(options.start_block_for.to_std()).await;
            if !options.start_error.is_empty() {
                return Err(fail(options.start_error.clone(), options.start_error_recoverable));
            }
            options.network().map_err(|error| fail(error, false))?;
            let logs = (!task.log_disabled).then(|| super::raw_exec::logs(&task)).flatten();
            let open = |base: &str| logs.as_ref().map(|logs| logs.open(base)).transpose();
            let outputs = open(&format!("{}.stdout", task.id.task))
                .and_then(|out| Ok((out, open(&format!("{}.stderr", task.id.task))?)));
            let (stdout, stderr) = outputs.map_err(|error| fail(format!("opening the task's logs: {error}"), true))?;
            let (run_for, outputs) =
                (options.run_for, [(stdout, options.stdout.clone()), (stderr, options.stderr.clone())]);
            let process = run(task.id.task.clone(), options, now(), run_for, outputs);
            self.known.put(task.id, Arc::clone(&process));
            Ok(process as Arc<dyn Process>)
        })
    }

    fn recover(&self, id: RunId, handle: Option<Blob>) -> Boxed<'_, Result<Option<Arc<dyn Process>>, String>> {
        Box::pin(async move {
            if let Some(process) = self.known.get(&id) {
                return Ok(Some(process as Arc<dyn Process>));
            }
            let Some(handle) = handle else { return Ok(None) };
            let handle: Handle =
                serde_json::from_slice(&handle.0).map_err(|error| format!("failed to decode driver state: {error}"))?;
            // The task counts as having run while no agent was there.
            let left = Dur(handle.options.run_for.nanos() - (now() - handle.started_at));
            let process = run(id.task.clone(), handle.options, handle.started_at, left, []);
            self.known.put(id, Arc::clone(&process));
            Ok(Some(process as Arc<dyn Process>))
        })
    }

    fn joins_networks(&self) -> bool {
        false
    }

    fn destroy(&self, id: RunId) -> Boxed<'_, ()> {
        Box::pin(async move {
            if let Some(process) = self.known.remove(&id) {
                process.kill.cancel();
            }
        })
    }
}

/// A simulated process.
struct Pretended {
    task: Str,
    handle: Handle,
    kill: CancellationToken,
    ended: watch::Receiver<Option<ExitResult>>,
}

fn run<const N: usize>(
    task: Str,
    options: Options,
    started_at: i64,
    run_for: Dur,
    outputs: [(Option<RotatingFile>, Output); N],
) -> Arc<Pretended> {
    let kill = CancellationToken::new();
    let (tell, ended) = watch::channel(None);
    let handle = Handle { options: options.clone(), started_at };
    let process = Pretended { task, handle, kill: kill.clone(), ended };
    tokio::spawn(async move {
        let plugin_exit = async {
            if options.plugin_exit_after > Dur::ZERO {
                tokio::time::sleep(options.plugin_exit_after.to_std()).await;
            } else {
                std::future::pending::<()>().await;
            }
        };
        let work = async {
            let mut printers = tokio::task::JoinSet::new();
            for (file, output) in outputs {
                printers.spawn(print(file, output));
            }
            tokio::time::sleep(run_for.to_std()).await;
            printers.join_all().await
        };
        let natural = ExitResult {
            exit_code: options.exit_code,
            signal: options.exit_signal,
            oom_killed: false,
            error: (!options.exit_err_msg.is_empty()).then(|| options.exit_err_msg.as_str().into()),
        };
        let exit = tokio::select! {
            () = kill.cancelled() => natural,
            () = plugin_exit => ExitResult::lost("plugin is shut down"),
            printed = work => match printed.into_iter().find_map(Result::err) {
                None => natural,
                Some(error) => ExitResult::lost(error.to_string()),
            },
        };
        let _ = tell.send(Some(exit));
    });
    Arc::new(process)
}

async fn print(file: Option<RotatingFile>, output: Output) -> io::Result<()> {
    let Some(mut file) = file else { return Ok(()) };
    if output.string.is_empty() {
        return Ok(());
    }
    file.write(output.string.as_bytes())?;
    for _ in 0..output.repeat {
        tokio::time::sleep(output.repeat_duration.to_std()).await;
        file.write(output.string.as_bytes())?;
    }
    Ok(())
}

impl Process for Pretended {
    fn handle(&self) -> Blob {
        Blob(serde_json::to_vec(&self.handle).unwrap_or_default())
    }

    fn wait(&self) -> Boxed<'_, ExitResult> {
        let mut ended = self.ended.clone();
        Box::pin(async move {
            match ended.wait_for(Option::is_some).await {
                Ok(exit) => exit.clone().unwrap_or_default(),
                Err(_) => ExitResult::lost("the agent is shutting down"),
            }
        })
    }

    fn stop(&self, _signal: &str, _timeout: Dur) -> Boxed<'_, Result<(), String>> {
        Box::pin(async move {
            tokio::select! {
                _ = self.wait() => {}
                () = tokio::time::sleep(self.handle.options.kill_after.to_std()) => self.kill.cancel(),
            }
            self.wait().await;
            Ok(())
        })
    }

    fn signal<'a>(&'a self, _signal: &'a str) -> Boxed<'a, Result<(), String>> {
        Box::pin(std::future::ready(match self.handle.options.signal_error.as_str() {
            "" => Ok(()),
            error => Err(error.to_owned()),
        }))
    }

    fn exec(&self, command: Command, ends: Ends) -> Boxed<'_, Result<CommandEnd, String>> {
        if command.in_task_dir {
            return Box::pin(canned::echo(&self.task, command, ends));
        }
        Box::pin(canned::run(self.handle.options.exec_command.as_ref(), command, ends))
    }

    fn usage(&self, _detail: Detail) -> Boxed<'_, Option<TaskUsage>> {
        let usage = TaskUsage::pretended(self.handle.started_at.unsigned_abs() % (64 << 20));
        Box::pin(std::future::ready(Some(usage)))
    }

    fn network(&self) -> Option<DriverNetwork> {
        // A task with a malformed port map is not started.
        self.handle.options.network().ok().flatten()
    }
}

impl Options {
    /// The network that the task pretends to be in; `None` if no option describes one.
    fn network(&self) -> Result<Option<DriverNetwork>, String> {
        let mapped = self.driver_port_map.split_once(':').map(|(label, port)| (label, port.parse::<i64>()));
        let ports: BTreeMap<Str, i64> = match mapped {
            None if self.driver_port_map.is_empty() => BTreeMap::new(),
            Some((label, Ok(port))) => BTreeMap::from([(label.into(), port)]),
            None | Some((_, Err(_))) => return Err(format!("malformed port map: {:?}", self.driver_port_map)),
        };
        let described = !self.driver_ip.is_empty() || !ports.is_empty();
        let network = DriverNetwork { address: self.driver_ip.clone(), ports, advertise: self.driver_advertise };
        Ok(described.then_some(network))
    }
}

fn now() -> i64 {
    Dur::from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()).nanos()
}

fn options(config: &Map<String, Value>) -> Result<Options, String> {
    let number = |key: &str| block::number(config, key);
    let span = |key: &str| block::span(config, key, Dur::ZERO);
    let output = |of: &str| -> Result<Output, String> {
        Ok(Output {
            string: text(config, &format!("{of}_string")),
            repeat: u64::try_from(number(&format!("{of}_repeat"))).unwrap_or(0),
            repeat_duration: span(&format!("{of}_repeat_duration"))?,
        })
    };
    Ok(Options {
        start_error: text(config, "start_error"),
        start_error_recoverable: block::flag(config, "start_error_recoverable").unwrap_or(false),
        start_block_for: span("start_block_for")?,
        run_for: span("run_for")?,
        exit_code: number("exit_code"),
        exit_signal: number("exit_signal"),
        exit_err_msg: text(config, "exit_err_msg"),
        kill_after: span("kill_after")?,
        plugin_exit_after: span("plugin_exit_after")?,
        signal_error: text(config, "signal_error"),
        driver_ip: text(config, "driver_ip"),
        driver_advertise: block::flag(config, "driver_advertise").unwrap_or(false),
        driver_port_map: text(config, "driver_port_map"),
        stdout: output("stdout")?,
        stderr: output("stderr")?,
        exec_command: block::block(config, "exec_command").map(|block| Canned::read(&block)).transpose()?,
    })
}

/// The known runs.
mod parking {
    use parking_lot::Mutex;
    use std::sync::Arc;

    use super::{Pretended, RunId};

    #[derive(Default)]
    pub(super) struct Runs(Mutex<Vec<(RunId, Arc<Pretended>)>>);

    impl Runs {
        pub fn put(&self, id: RunId, process: Arc<Pretended>) {
            self.0.lock().push((id, process));
        }

        pub fn get(&self, id: &RunId) -> Option<Arc<Pretended>> {
            let runs = self.0.lock();
            runs.iter().find(|(known, _)| known == id).map(|(_, process)| Arc::clone(process))
        }

        pub fn remove(&self, id: &RunId) -> Option<Arc<Pretended>> {
            let mut runs = self.0.lock();
            let at = runs.iter().position(|(known, _)| known == id)?;
            Some(runs.swap_remove(at).1)
        }
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use serde_json::json;
    use songline_rpc::ExecOutput;

    use super::*;

    #[tokio::test]
    async fn script_of_the_agent_prints_what_was_run_and_needs_no_exec_command() {
        let process = run("web".into(), Options::default(), 0, Dur::ZERO, []);
        let (_input, from_caller) = tokio::sync::mpsc::channel(1);
        let (to_caller, mut said) = tokio::sync::mpsc::channel(16);
        let command = Command { argv: vec!["sh".into(), "a b".into()], tty: false, in_task_dir: true };
        let end = process.exec(command, Ends { input: from_caller, output: to_caller }).await;
        assert_eq!(end, Ok(CommandEnd::default()));
        let Some(Ok(ExecOutput::Stdout(text))) = said.recv().await else { panic!("no output") };
        assert_eq!(text, r#"Exec("web", ["sh" "a b"])"#);
    }

    #[test]
    fn network_of_the_driver_is_the_one_that_the_options_describe() {
        let network = |config: Value| {
            let options = options(config.as_object().expect("an object")).expect("known options");
            match options.network() {
                Ok(Some(DriverNetwork { address, ports, advertise })) => format!("{address:?} {ports:?} {advertise}"),
                Ok(None) => "none".to_owned(),
                Err(error) => error,
            }
        };
        let texts = [
            network(json!({ "driver_advertise": true })),
            network(json!({ "driver_ip": "10.9.8.7" })),
            network(json!({ "driver_port_map": "http:8080" })),
            network(json!({ "driver_ip": "10.9.8.7", "driver_advertise": true, "driver_port_map": "http:8080" })),
            network(json!({ "driver_port_map": "http" })),
            network(json!({ "driver_port_map": "http:x" })),
        ];
        expect![[r#"
            none
            "10.9.8.7" {} false
            "" {"http": 8080} false
            "10.9.8.7" {"http": 8080} true
            malformed port map: "http"
            malformed port map: "http:x""#]]
        .assert_eq(&texts.join("\n"));
    }
}
