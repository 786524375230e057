//! Checks of the type `script`: a command that runs in a task at every interval, and whose outcome is reported to
//! Consul. Consul takes a script that is not heard of for critical.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use songline_model::Str;
use songline_rpc::ExecOutput;
use tokio::sync::mpsc;
use tokio::task::AbortHandle;

use super::definition::{Script, ServiceDefinition};
use super::registrations::Registrations;
use crate::core::{CheckVerdict, Workload};
use crate::driver::{Boxed, Command, Ends, Process};

/// Largest output that is reported, in bytes: the end of a longer one.
const OUTPUT_BYTES_MAX: usize = 4 << 10;
/// Interval at which a script waits for its task and for its check's registration.
const WAIT: Duration = Duration::from_millis(500);

/// Finds the process of a task, if it runs.
pub(crate) type FindProcess = Arc<dyn Fn(&str) -> Option<Arc<dyn Process>> + Send + Sync>;

/// The scripts of an allocation that run now.
#[derive(Default)]
pub(crate) struct Scripts(BTreeMap<Workload, BTreeMap<Str, Running>>);

/// A script that ends when this is dropped.
struct Running(AbortHandle);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Scripts {
    /// Makes the scripts of these services the ones that run for a workload. Those that ran before go on.
    pub fn set(
        &mut self,
        of: &Workload,
        services: &[ServiceDefinition],
        registrations: &Arc<Registrations>,
        find: &FindProcess,
        spawn: impl Fn(Boxed<'static, ()>) -> AbortHandle,
    ) {
        let mut before = self.0.remove(of).unwrap_or_default();
        let checks = services.iter().flat_map(|service| &service.checks);
        let mut running = BTreeMap::new();
        for check in checks {
            let Some(script) = check.script.clone() else { continue };
            let kept = before.remove(&check.id).unwrap_or_else(|| {
                let work = repeat(check.id.clone(), script, Arc::clone(registrations), Arc::clone(find));
                Running(spawn(Box::pin(work)))
            });
            running.insert(check.id.clone(), kept);
        }
        if !running.is_empty() {
            self.0.insert(of.clone(), running);
        }
    }

    /// Ends the scripts of a workload.
    pub fn end(&mut self, of: &Workload) {
        self.0.remove(of);
    }
}

async fn repeat(check: Str, script: Script, registrations: Arc<Registrations>, find: FindProcess) {
    loop {
        let known = registrations.outcome(&check).verdict != CheckVerdict::Missing;
        let Some(process) = find(&script.task).filter(|_| known) else {
            tokio::time::sleep(WAIT).await;
            continue;
        };
        let (status, output) = run(&script, &*process).await;
        if let Err(error) = registrations.agent().update_check(&check, status, &output).await {
            tracing::debug!(check = check.as_str(), %error, "reporting a script's outcome");
        }
        tokio::time::sleep(script.interval.to_std().max(WAIT)).await;
    }
}

/// Appends to the output, and drops its beginning beyond [`OUTPUT_BYTES_MAX`].
fn keep_last(output: &mut Vec<u8>, bytes: &[u8]) {
    output.extend_from_slice(bytes);
    output.drain(..output.len().saturating_sub(OUTPUT_BYTES_MAX));
}

/// Runs a script once: the status that Consul knows, and the output.
async fn run(script: &Script, process: &dyn Process) -> (&'static str, String) {
    let (_input, from_caller) = mpsc::channel(1);
    let (to_caller, mut frames) = mpsc::channel(16);
    let ends = Ends { input: from_caller, output: to_caller };
    let mut output = Vec::new();
    let read = async {
        while let Some(frame) = frames.recv().await {
            if let Ok(ExecOutput::Stdout(bytes) | ExecOutput::Stderr(bytes)) = frame {
                keep_last(&mut output, &bytes);
            }
        }
    };
    let command = Command { argv: script.argv.clone(), tty: false, in_task_dir: true };
    let ended = tokio::time::timeout(script.timeout.to_std(), process.exec(command, ends));
    // Output that is not read would block the script.
    let (ended, ()) = futures_util::future::join(ended, read).await;
    let output = String::from_utf8_lossy(&output).into_owned();
    match ended {
        Ok(Ok(end)) => match end.exit_code {
            0 => ("passing", output),
            1 => ("warning", output),
            _ => ("critical", output),
        },
        Ok(Err(error)) => ("critical", error),
        Err(_) => ("critical", format!("the script did not end in {}", script.timeout)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_output_of_a_script_is_reported_by_its_last_4_kib() {
        let mut output = Vec::new();
        let pieces = [vec![b'a'; 4000], vec![b'b'; 90], vec![b'c'; 10], vec![b'd'; 5000]];
        let story = pieces.map(|piece| {
            keep_last(&mut output, &piece);
            let count = |letter| output.iter().filter(|byte| **byte == letter).count();
            (*b"abcd").map(count)
        });
        assert_eq!(story, [[4000, 0, 0, 0], [4000, 90, 0, 0], [3996, 90, 10, 0], [0, 0, 0, 4096]]);
    }
}
