//! The worker of one task's templates: renders until nothing is missing, then again whenever an answer changes.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use songline_lang::template::Value;
use songline_lang::template::consul::{Noted, Question};
use songline_model::{Dur, Secret, Str, Template};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::answers::{Asker, Heard};
use super::change::{self, Change};
use super::render::{Known, redacted, render};
use super::secrets::{ReadsVault, VaultAsker};
use super::settings::TemplateSettings;
use super::{Dirs, Plan, Reads, env_file};
use crate::allocdir::{SECRETS, given_owner};
use crate::beneath::{Dir, Owner};
use crate::clock::Clock;
use crate::consul::Agent;
use crate::core::{Input, event};
use crate::driver::Process;
use crate::env::TaskEnv;

/// Shortest time between two events that say what is missing.
const MISSING_EVERY: Duration = Duration::from_secs(3);
/// Number of missing answers that an event names.
const MISSING_NAMED_MAX: usize = 3;
/// Delay before changes are applied to a task that an earlier agent has started: it has to be found first.
const AFTER_RESTORE: Duration = Duration::from_secs(1);

/// Variables that environment templates set.
type Vars = BTreeMap<String, String>;

/// The worker's ways to the task.
pub(crate) struct Hooks {
    /// Tells the allocation's state machine.
    pub tell: Box<dyn Fn(Input) + Send + Sync>,
    /// The task's process, if it runs.
    pub process: Box<dyn Fn() -> Option<Arc<dyn Process>> + Send + Sync>,
}

/// Surroundings of the worker.
pub(crate) struct Task {
    pub name: Str,
    pub plans: Vec<Plan>,
    pub dirs: Dirs,
    /// Environment as the task sees it.
    pub env: TaskEnv,
    pub namespace: String,
    pub region: String,
    pub token: Secret,
    /// The node's Consul agent, if it has one.
    pub consul: Option<Agent>,
    /// Vault, with the task's token. `None`: the task has no `vault` block.
    pub vault: Option<ReadsVault>,
    /// Whether a process of the task runs already.
    pub restored: bool,
}

/// The handle of a worker. Dropping it ends the worker.
pub(crate) struct Rendering {
    vars: watch::Receiver<Option<Vars>>,
    _stop: DropGuard,
}

impl Rendering {
    /// A receiver for [`rendered`].
    pub fn vars(&self) -> watch::Receiver<Option<Vars>> {
        self.vars.clone()
    }
}

/// Waits until all templates are rendered. Returns the variables that they set, or nothing if a template failed or the
/// worker was stopped; the task was told.
pub(crate) async fn rendered(mut vars: watch::Receiver<Option<Vars>>) -> Option<Vars> {
    vars.wait_for(Option::is_some).await.ok().and_then(|vars| vars.clone())
}

/// Creates a worker and its handle. The caller runs the worker.
pub(crate) fn start(
    task: Task,
    settings: TemplateSettings,
    reads: Reads,
    clock: Clock,
    hooks: Hooks,
) -> (Rendering, impl Future<Output = ()> + Send) {
    let (vars, receiver) = watch::channel(None);
    let stop = CancellationToken::new();
    let (heard, inbox) = mpsc::unbounded_channel();
    let vault = task.vault.clone().map(|reads| VaultAsker {
        reads,
        settings: settings.clone(),
        clock: clock.clone(),
        heard: heard.clone(),
    });
    let asker = Asker {
        reads,
        consul: task.consul.clone(),
        token: task.token.clone(),
        settings: settings.clone(),
        namespace: task.namespace.clone(),
        region: task.region.clone(),
        heard,
    };
    let worker = Worker {
        env: Arc::new(task.env.vars.clone()),
        written: vec![None; task.plans.len()],
        seed: seed(&clock),
        task,
        settings,
        asker,
        vault,
        clock,
        hooks,
        vars,
        inbox,
        asked: BTreeSet::new(),
        asking: JoinSet::new(),
        answers: BTreeMap::new(),
        secrets: BTreeSet::new(),
    };
    let until = stop.clone();
    let run = async move {
        tokio::select! { () = until.cancelled() => {}, () = worker.run() => {} }
    };
    (Rendering { vars: receiver, _stop: stop.drop_guard() }, run)
}

struct Worker {
    task: Task,
    env: Arc<Vars>,
    settings: TemplateSettings,
    asker: Asker,
    vault: Option<VaultAsker>,
    clock: Clock,
    hooks: Hooks,
    vars: watch::Sender<Option<Vars>>,
    inbox: mpsc::UnboundedReceiver<Heard>,
    asked: BTreeSet<Question>,
    /// Followed questions. They end with the worker.
    asking: JoinSet<()>,
    answers: BTreeMap<Question, Value>,
    /// Texts that errors must not show.
    secrets: BTreeSet<String>,
    /// Contents of the files that were written, by template.
    written: Vec<Option<Vec<u8>>>,
    /// Seed of random values, which stay the same as long as the worker lives: another answer does not change them.
    seed: [u8; 32],
}

/// Output of each template; `None` while answers are missing.
type Outputs = Vec<Option<Vec<u8>>>;

impl Worker {
    async fn run(mut self) {
        if let Err(error) = self.work().await {
            let text = redacted(&error, &self.secrets);
            let event = event::killing_because(self.clock.now(), &text);
            (self.hooks.tell)(Input::TaskFailed { task: self.task.name.clone(), event: Box::new(event) });
        }
    }

    async fn work(&mut self) -> Result<(), String> {
        if let Some(vault) = self.vault.clone() {
            self.asking.spawn(vault.follow_token());
        }
        let changed = self.first().await?;
        if self.task.restored && !changed.is_empty() {
            tokio::time::sleep(AFTER_RESTORE).await;
            self.apply(&changed).await?;
        }
        self.follow().await
    }

    /// Renders until all files are there. Returns the templates whose files had other contents before.
    async fn first(&mut self) -> Result<Vec<usize>, String> {
        let mut said = BTreeSet::new();
        let mut next_event = Instant::now() + MISSING_EVERY;
        loop {
            let (outputs, missing) = self.render().await?;
            if missing.is_empty() {
                let mut changed = Vec::new();
                for (at, output) in outputs.into_iter().enumerate() {
                    let output = output.unwrap_or_default();
                    if self.existing(at).await.as_ref() != Some(&output) {
                        self.write(at, output.clone()).await?;
                        changed.push(at);
                    }
                    self.written[at] = Some(output);
                }
                let vars = self.read_vars()?;
                self.vars.send_replace(Some(vars));
                return Ok(changed);
            }
            tokio::select! {
                heard = next(&mut self.inbox) => self.learn(heard)?,
                () = tokio::time::sleep_until(next_event) => {
                    if missing != said {
                        self.say_missing(&missing);
                        said = missing;
                    }
                    next_event += MISSING_EVERY;
                }
            }
        }
    }

    /// Renders again after each change, for ever.
    async fn follow(&mut self) -> Result<(), String> {
        // First and last change of templates that wait for stable answers, with the output.
        let mut pending: BTreeMap<usize, (Instant, Instant, Vec<u8>)> = BTreeMap::new();
        loop {
            let due = pending.iter().map(|(at, (first, last, _))| self.due(*at, *first, *last)).min();
            tokio::select! {
                heard = next(&mut self.inbox) => {
                    self.learn(heard)?;
                    let (outputs, _) = self.render().await?;
                    let now = Instant::now();
                    for (at, output) in outputs.into_iter().enumerate() {
                        match output {
                            Some(output) if self.written[at].as_ref() == Some(&output) => drop(pending.remove(&at)),
                            Some(output) => {
                                let entry = pending.entry(at).or_insert((now, now, Vec::new()));
                                if entry.2 != output {
                                    (entry.1, entry.2) = (now, output);
                                }
                            }
                            None => {}
                        }
                    }
                }
                () = at(due) => {}
            }
            let now = Instant::now();
            let ready = |at: &usize, entry: &mut (Instant, Instant, Vec<u8>)| self.due(*at, entry.0, entry.1) <= now;
            let ready: Vec<(usize, Vec<u8>)> =
                pending.extract_if(.., ready).map(|(at, (_, _, output))| (at, output)).collect();
            if ready.is_empty() {
                continue;
            }
            let mut changed = Vec::new();
            for (at, output) in ready {
                self.write(at, output.clone()).await?;
                self.written[at] = Some(output);
                changed.push(at);
            }
            self.apply(&changed).await?;
        }
    }

    fn due(&self, at: usize, first: Instant, last: Instant) -> Instant {
        let (min, max) = self.task.plans[at].wait;
        (last + min.to_std()).min(first + max.to_std())
    }

    /// Renders all templates, and asks the questions that are new. Returns the outputs and what is missing.
    async fn render(&mut self) -> Result<(Outputs, BTreeSet<Question>), String> {
        let known = Known {
            env: Arc::clone(&self.env),
            dirs: self.task.dirs.clone(),
            answers: self.answers.clone(),
            now: self.clock.now(),
            namespace: self.task.namespace.clone(),
            region: self.task.region.clone(),
            seed: self.seed,
        };
        let (plans, denied) = (self.task.plans.clone(), self.settings.denied.clone());
        let all = tokio::task::spawn_blocking(move || {
            let all = plans.iter().enumerate().map(|(at, plan)| render(at, plan, &known, &denied));
            all.collect::<Result<Vec<(Vec<u8>, Noted)>, String>>()
        });
        let all = all.await.map_err(|error| error.to_string()).and_then(|all| all);
        let all = all.map_err(|error| format!("Template failed: {error}"))?;
        let mut missing = BTreeSet::new();
        let mut outputs = Vec::new();
        for (output, noted) in all {
            noted.asked.into_iter().for_each(|question| self.ask(question));
            outputs.push(noted.missing.is_empty().then_some(output));
            missing.extend(noted.missing);
        }
        Ok((outputs, missing))
    }

    fn ask(&mut self, question: Question) {
        if self.asked.contains(&question) {
            return;
        }
        match &question {
            Question::Vault(asked) => {
                let Some(vault) = self.vault.clone() else { return };
                self.asking.spawn(vault.follow(asked.clone()));
            }
            Question::Consul(_)
            | Question::Variable(_)
            | Question::VariableExists(_)
            | Question::VariableList(_)
            | Question::Service { .. }
            | Question::Services => {
                self.asking.spawn(self.asker.clone().follow(question.clone()));
            }
        }
        self.asked.insert(question);
    }

    /// Takes an answer, and all others that have come meanwhile.
    fn learn(&mut self, heard: Heard) -> Result<(), String> {
        let mut heard = Some(heard);
        while let Some(one) = heard {
            match one {
                Heard::Failed(error) => return Err(format!("Template failed: {error}")),
                Heard::Token(token) => {
                    Arc::make_mut(&mut self.env).insert("VAULT_TOKEN".to_owned(), token.reveal().to_owned());
                    self.secrets.insert(token.reveal().to_owned());
                }
                // A variable that is deleted keeps its last value.
                Heard::Answer { question, value, secrets } => {
                    self.secrets.extend(secrets);
                    if let Some(value) = value {
                        self.answers.insert(question, value);
                    }
                }
            }
            heard = self.inbox.try_recv().ok();
        }
        Ok(())
    }

    fn say_missing(&self, missing: &BTreeSet<Question>) {
        let mut names: Vec<String> = missing.iter().map(ToString::to_string).collect();
        names.sort();
        let more = names.len().saturating_sub(MISSING_NAMED_MAX);
        names.truncate(MISSING_NAMED_MAX);
        let more = if more > 0 { format!(", and {more} more") } else { String::new() };
        self.emit(event::shown(event::TEMPLATE, self.clock.now(), &format!("Missing: {}{more}", names.join(", "))));
    }

    fn emit(&self, event: songline_model::TaskEvent) {
        (self.hooks.tell)(Input::TaskEvent { task: self.task.name.clone(), event: Box::new(event) });
    }

    /// Contents of the file of a template, if there is one.
    async fn existing(&self, at: usize) -> Option<Vec<u8>> {
        let (root, path) = (self.task.dirs.alloc.clone(), self.task.plans[at].destination.clone());
        let read = move || {
            let mut content = Vec::new();
            Dir::open(&root)?.read(&path)?.read_to_end(&mut content)?;
            std::io::Result::Ok(content)
        };
        tokio::task::spawn_blocking(read).await.ok()?.ok()
    }

    async fn write(&self, at: usize, output: Vec<u8>) -> Result<(), String> {
        let (root, plan) = (self.task.dirs.alloc.clone(), self.task.plans[at].clone());
        let write = move || {
            let path = &plan.destination;
            let name = path.file_name().ok_or_else(|| std::io::Error::other("the file has no name"))?;
            let parent = path.parent().unwrap_or(Path::new(""));
            let root = Dir::open(&root)?;
            let dir = root.make_dirs(parent, 0o755)?;
            dir.write(name, &output, plan.mode, plan.owner.or_else(|| owner_of_secret(&root, path, plan.mode)))
        };
        let written = tokio::task::spawn_blocking(write).await.map_err(|error| error.to_string());
        let written = written.and_then(|written| written.map_err(|error| error.to_string()));
        let path = &self.task.plans[at].destination;
        written.map_err(|error| format!("Template failed: writing {}: {error}", path.display()))
    }

    /// Variables of all environment templates; later ones override earlier ones.
    fn read_vars(&self) -> Result<Vars, String> {
        let mut vars = Vars::new();
        for (plan, written) in self.task.plans.iter().zip(&self.written) {
            if !plan.template.envvars {
                continue;
            }
            let text = String::from_utf8_lossy(written.as_deref().unwrap_or_default()).into_owned();
            let path = self.task.dirs.alloc.join(&plan.destination);
            vars.extend(env_file::parse(&text).map_err(|error| {
                format!("Template failed to read environment variables: error parsing env template {path:?}: {error}")
            })?);
        }
        Ok(vars)
    }

    /// Lets the task know of changed templates.
    async fn apply(&mut self, changed: &[usize]) -> Result<(), String> {
        let vars = self.read_vars()?;
        self.vars.send_replace(Some(vars));
        let templates: Vec<Template> = changed.iter().map(|at| self.task.plans[*at].template.clone()).collect();
        let splay = templates.iter().map(|template| template.splay).max().unwrap_or(Dur::ZERO);
        if splay > Dur::ZERO {
            tokio::time::sleep(self.clock.jitter().below(splay).to_std()).await;
        }
        let Change { restart, signals, scripts } = Change::of(&templates);
        if restart || !signals.is_empty() {
            (self.hooks.tell)(Input::TemplatesChanged { task: self.task.name.clone(), restart, signals });
        }
        let scripts = scripts.iter().map(|script| self.run_script(script));
        futures_util::future::join_all(scripts).await.into_iter().collect()
    }

    async fn run_script(&self, script: &songline_model::ChangeScript) -> Result<(), String> {
        let Some(process) = (self.hooks.process)() else { return Ok(()) };
        let replaced = |text: &Str| self.task.env.replace(text);
        let argv = std::iter::once(&script.command).chain(script.args.iter().flatten()).map(replaced).collect();
        let (text, succeeded) = change::run(script, argv, process).await;
        let kind = if succeeded { event::HOOK_MESSAGE } else { event::HOOK_FAILED };
        self.emit(event::shown(kind, self.clock.now(), &text));
        if !succeeded && script.fail_on_error {
            return Err("Template script failed, task is being killed".to_owned());
        }
        Ok(())
    }
}

/// A seed from the machine's random numbers.
fn seed(clock: &Clock) -> [u8; 32] {
    let mut seed = [0; 32];
    for part in seed.chunks_mut(8) {
        part.copy_from_slice(&clock.world().number().to_le_bytes());
    }
    seed
}

/// The next answer; never if nothing can answer.
async fn next(inbox: &mut mpsc::UnboundedReceiver<Heard>) -> Heard {
    match inbox.recv().await {
        Some(heard) => heard,
        None => std::future::pending().await,
    }
}

async fn at(due: Option<Instant>) {
    match due {
        Some(due) => tokio::time::sleep_until(due).await,
        None => std::future::pending().await,
    }
}

/// Owner of a file that no other user may read, in the secrets of a task whose image told its user: that user. `None`
/// for all other files.
fn owner_of_secret(alloc: &Dir, path: &Path, mode: u32) -> Option<Owner> {
    let mut parts = path.components().map(|part| part.as_os_str());
    let (task, place) = (parts.next()?, parts.next()?);
    (place == SECRETS && mode & 0o077 == 0).then(|| given_owner(&alloc.dir(task).ok()?)).flatten()
}
