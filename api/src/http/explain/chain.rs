//! The steps of an explanation: from an allocation to the entries that changed it, from these to the evaluations
//! behind them, and from there to the node, the job or the caller that started it. All facts come from the record of
//! object history and from the log.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use serde::Serialize;
use songline_commands::{Command, Kind};
use songline_events::object_history::{FieldChange, Object, ObjectChange, ObjectDiff, ObjectKind, Order};
use songline_events::past::{LoggedCommand, Past, PastError};
use songline_model::{AllocId, Allocation, EvalId, Evaluation, JobKey, NodeId, Time};
use songline_projections::State;

use super::words::{self, Words};
use crate::http::history::{changes_of, command_at};
use crate::http::shown::Shown;

/// Largest number of changes that are read of one object.
const CHANGES_MAX: usize = 256;
/// Largest number of evaluations and neighbouring allocations that are followed: chains of retries can be long, and
/// their beginning explains little.
const FOLLOWED_MAX: usize = 48;

/// Subject of a step. Steps of one entry are sorted in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum About {
    Command,
    Job,
    Node,
    Deployment,
    Evaluation,
    Plan,
    Allocation,
}

/// One step.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct Step {
    /// Index of the entry.
    pub index: u64,
    /// Time of the entry. Null: the entry is no longer in the log.
    pub time: Option<Time>,
    pub about: About,
    /// Id or name of the subject.
    #[serde(rename = "ID")]
    pub id: String,
    /// Kind of the entry. Empty when the caller may not see it.
    pub command: &'static str,
    pub actor: Option<String>,
    /// Index of the entry that led to this one.
    pub caused_by: Option<u64>,
    pub text: String,
}

/// Work items of the search.
enum Todo {
    /// All steps of an allocation.
    Whole(AllocId),
    /// Reason why an allocation was replaced.
    Left(AllocId),
    /// Placement of a replacement.
    Placed(AllocId),
    Evaluation(EvalId),
    Entry(u64),
}

pub(super) struct Chain<'a> {
    past: &'a dyn Past,
    words: Words,
    until: u64,
    steps: BTreeMap<(u64, About, String), Step>,
    todo: VecDeque<Todo>,
    evals: BTreeSet<EvalId>,
    commands: BTreeMap<u64, Option<(LoggedCommand, Time)>>,
    /// The explained allocation's job: facts about other jobs in an entry explain nothing.
    job: JobKey,
}

impl<'a> Chain<'a> {
    /// A chain of the entries up to the index of `view`, for a caller with the rights `shown`.
    pub(super) fn new(past: &'a dyn Past, view: Arc<State>, shown: Shown) -> Self {
        let until = view.applied_index();
        Self {
            past,
            words: Words { view, shown },
            until,
            steps: BTreeMap::new(),
            todo: VecDeque::new(),
            evals: BTreeSet::new(),
            commands: BTreeMap::new(),
            job: JobKey::default(),
        }
    }

    /// An allocation's row; the last one when it has been dropped since.
    pub(super) async fn allocation(&self, id: AllocId) -> Result<Option<Arc<Allocation>>, PastError> {
        if let Some(row) = self.words.view.alloc(id) {
            return Ok(Some(Arc::clone(row)));
        }
        let object = Object::new(ObjectKind::Allocation, id);
        let last = changes_of(self.past, object, self.until, Order::NewestFirst, 1).await?.pop();
        match last {
            Some(ObjectChange { index, diff: ObjectDiff::Deleted, .. }) => {
                Ok(self.past.state_at(index.saturating_sub(1)).await?.alloc(id).cloned())
            }
            Some(_) | None => Ok(None),
        }
    }

    /// The steps that led to an allocation's present state, in order.
    pub(super) async fn of_allocation(mut self, row: &Allocation) -> Result<Vec<Step>, PastError> {
        self.job = row.job_key();
        if let Some(previous) = row.previous_allocation {
            self.todo.push_back(Todo::Left(previous));
        }
        self.todo.push_back(Todo::Whole(row.id));
        if let Some(next) = row.next_allocation {
            self.todo.push_back(Todo::Placed(next));
        }
        let mut followed = 0;
        while let Some(todo) = self.todo.pop_front() {
            followed += 1;
            if followed > FOLLOWED_MAX {
                break;
            }
            match todo {
                Todo::Whole(id) => self.follow_alloc(id, |_| true).await?,
                Todo::Left(id) => self.follow_alloc(id, is_end).await?,
                Todo::Placed(id) => {
                    self.follow_alloc(id, |change| matches!(change.diff, ObjectDiff::Created(_))).await?
                }
                Todo::Evaluation(id) => self.follow_eval(id).await?,
                Todo::Entry(index) => self.tell_entry(index).await?,
            }
        }
        Ok(self.steps.into_values().collect())
    }

    async fn changes(&self, kind: ObjectKind, id: impl std::fmt::Display) -> Result<Vec<ObjectChange>, PastError> {
        let mut changes = changes_of(self.past, Object::new(kind, id), 0, Order::OldestFirst, CHANGES_MAX).await?;
        changes.retain(|change| change.index <= self.until);
        Ok(changes)
    }

    async fn command(&mut self, index: u64) -> Result<Option<(LoggedCommand, Time)>, PastError> {
        if let Some(known) = self.commands.get(&index) {
            return Ok(known.clone());
        }
        let found = command_at(self.past, index).await?;
        self.commands.insert(index, found.clone());
        Ok(found)
    }

    /// Adds a step, or a further half-sentence to an existing step.
    fn tell(
        &mut self,
        index: u64,
        kind: Kind,
        entry: Option<&(LoggedCommand, Time)>,
        about: About,
        id: String,
        text: String,
    ) {
        let made = || Step {
            index,
            time: entry.map(|(_, at)| *at),
            about,
            id: id.clone(),
            command: self.words.shown.command(kind),
            actor: entry.map(|(command, _)| self.words.shown.actor(&command.envelope.actor.to_string()).to_owned()),
            caused_by: entry.and_then(|(command, _)| command.envelope.cause).map(|cause| cause.index),
            text: String::new(),
        };
        let step = self.steps.entry((index, about, id.clone())).or_insert_with(made);
        if step.text.is_empty() {
            step.text = text;
        } else if !step.text.contains(&text) {
            step.text = format!("{}; {text}", step.text);
        }
    }

    /// Adds a step about an object that the caller may not read: its time and `text`, but no command, actor or cause.
    fn hint(&mut self, index: u64, time: Option<Time>, about: About, id: String, text: String) {
        let step = Step { index, time, about, id: id.clone(), command: "", actor: None, caused_by: None, text };
        self.steps.insert((index, about, id), step);
    }

    async fn follow_alloc(&mut self, id: AllocId, wanted: fn(&ObjectChange) -> bool) -> Result<(), PastError> {
        let changes = self.changes(ObjectKind::Allocation, id).await?;
        for change in changes.into_iter().filter(wanted) {
            let entry = self.command(change.index).await?;
            let what = self.words.alloc(id);
            let (fields, is_new) = match &change.diff {
                ObjectDiff::Created(fields) => (fields.as_slice(), true),
                ObjectDiff::Updated(fields) => (fields.as_slice(), false),
                ObjectDiff::Deleted => {
                    let who = entry
                        .as_ref()
                        .map_or_else(|| "it".to_owned(), |(command, _)| self.words.actor(&command.envelope.actor));
                    let text = format!("{who} dropped the row of {what}: it was not needed any more");
                    self.tell(change.index, change.kind, entry.as_ref(), About::Allocation, id.to_string(), text);
                    continue;
                }
            };
            match entry.as_ref().map(|(command, _)| &command.envelope.command) {
                Some(Command::ApplyPlanResults(plan)) => {
                    let eval = plan.eval_id;
                    let parts = self.plan_parts(&what, fields, is_new);
                    for part in parts {
                        let text = format!("{} {part}", words::plan(eval));
                        self.tell_plan(&change, entry.as_ref(), eval, text, part);
                    }
                    self.todo.push_back(Todo::Evaluation(eval));
                }
                _ if is_new => {
                    let text = format!("{what} was placed{}", self.on_node(fields));
                    self.tell(change.index, change.kind, entry.as_ref(), About::Allocation, id.to_string(), text);
                }
                found => {
                    let by = entry.as_ref().map(|(command, _)| command.envelope.actor.clone()).unwrap_or_default();
                    let asked = matches!(found, Some(Command::AllocUpdateDesiredTransition(_)));
                    if let Some(text) = update_text(&what, &self.words.actor(&by), fields) {
                        self.tell(change.index, change.kind, entry.as_ref(), About::Allocation, id.to_string(), text);
                    }
                    if asked && let Some(cause) = entry.as_ref().and_then(|(command, _)| command.envelope.cause) {
                        self.todo.push_back(Todo::Entry(cause.index));
                    }
                }
            }
        }
        Ok(())
    }

    /// Adds one step for everything that a plan did, with one half-sentence per fact.
    fn tell_plan(
        &mut self,
        change: &ObjectChange,
        entry: Option<&(LoggedCommand, Time)>,
        eval: EvalId,
        first: String,
        further: String,
    ) {
        let is_told = self.steps.contains_key(&(change.index, About::Plan, eval.to_string()));
        let text = if is_told { further } else { first };
        self.tell(change.index, change.kind, entry, About::Plan, eval.to_string(), text);
    }

    fn plan_parts(&self, what: &str, fields: &[FieldChange], is_new: bool) -> Vec<String> {
        if is_new {
            let replaces = id_field(fields, "PreviousAllocation").map(AllocId::from);
            let replaces = replaces.map(|id| format!(" in the place of {}", self.words.alloc(id))).unwrap_or_default();
            return vec![format!("placed {what}{}{replaces}", self.on_node(fields))];
        }
        let mut parts = Vec::new();
        let said = text_field(fields, "DesiredDescription").map(|why| format!(" ({why})")).unwrap_or_default();
        match (text_field(fields, "DesiredStatus"), text_field(fields, "ClientStatus")) {
            (Some("run"), _) => parts.push(format!("wants {what} to run again{said}")),
            (Some(_), None) => parts.push(format!("stopped {what}{said}")),
            (Some(_), Some(status)) => parts.push(format!("stopped {what} and took it for {status}{said}")),
            (None, Some(status)) => parts.push(format!("took {what} for {status}{said}")),
            (None, None) => {}
        }
        if let Some(followup) = id_field(fields, "FollowupEvalID").map(EvalId::from) {
            parts.push(format!("left {what} to evaluation {}", words::short(followup)));
        }
        if parts.is_empty() && field(fields, "EvalID").is_some() {
            parts.push(format!("updated {what} in place"));
        }
        parts
    }

    fn on_node(&self, fields: &[FieldChange]) -> String {
        id_field(fields, "NodeID").map(|id| format!(" on {}", self.words.node(NodeId::from(id)))).unwrap_or_default()
    }

    async fn follow_eval(&mut self, id: EvalId) -> Result<(), PastError> {
        if !self.evals.insert(id) {
            return Ok(());
        }
        let changes = self.changes(ObjectKind::Evaluation, id).await?;
        let Some(ObjectChange { index, kind, diff: ObjectDiff::Created(fields), .. }) = changes.into_iter().next()
        else {
            return Ok(());
        };
        let Some(eval) = evaluation(fields) else { return Ok(()) };
        let entry = self.command(index).await?;
        if !self.words.shown.jobs_in(&eval.namespace) {
            // The plan preempted for a job of another namespace; the caller may not see its causes.
            self.hint(index, entry.map(|(_, at)| at), About::Evaluation, id.to_string(), words::hidden_evaluation(id));
            return Ok(());
        }
        self.tell(index, kind, entry.as_ref(), About::Evaluation, id.to_string(), words::made_evaluation(&eval));
        if kind != Kind::EvalUpdate {
            self.todo.push_back(Todo::Entry(index));
        }
        let cause = entry.and_then(|(command, _)| command.envelope.cause);
        if let Some(cause) = cause.filter(|cause| cause.kind != Kind::EvalUpdate.number()) {
            self.todo.push_back(Todo::Entry(cause.index));
        }
        if let Some(previous) = eval.previous_eval {
            self.todo.push_back(Todo::Evaluation(previous));
        }
        Ok(())
    }

    /// Adds a step for an entry's command.
    async fn tell_entry(&mut self, index: u64) -> Result<(), PastError> {
        let Some(entry) = self.command(index).await? else { return Ok(()) };
        let envelope = &entry.0.envelope;
        if let Some((about, text)) = self.words.hidden(&envelope.command) {
            self.hint(index, Some(entry.1), about, String::new(), text.to_owned());
            return Ok(());
        }
        let (about, id, text) = self.words.command(&self.job, &envelope.actor, &envelope.command);
        let kind = envelope.command.kind();
        self.tell(index, kind, Some(&entry), about, id, text);
        Ok(())
    }
}

/// Whether a change ends an allocation or makes it move.
fn is_end(change: &ObjectChange) -> bool {
    let ObjectDiff::Updated(fields) = &change.diff else { return false };
    let over = |status: &str| matches!(status, "failed" | "lost" | "unknown");
    field(fields, "DesiredStatus").is_some()
        || text_field(fields, "ClientStatus").is_some_and(over)
        || fields.iter().any(|field| field.path.starts_with("DesiredTransition"))
}

/// Text about a change outside of plans; `None` when the change explains nothing.
fn update_text(what: &str, by: &str, fields: &[FieldChange]) -> Option<String> {
    let mut parts = Vec::new();
    let asks = |word: &str| {
        let nested = field(fields, &format!("DesiredTransition.{word}")).is_some_and(|field| field.new == true);
        nested || field(fields, "DesiredTransition").is_some_and(|field| field.new[word] == true)
    };
    if asks("Migrate") {
        parts.push(format!("{by} asked to move {what}"));
    }
    if asks("Reschedule") || asks("ForceReschedule") {
        parts.push(format!("{by} asked to replace {what}"));
    }
    if let Some(status) = text_field(fields, "ClientStatus") {
        let note = text_field(fields, "ClientDescription").map(|note| format!(" ({note})")).unwrap_or_default();
        parts.push(format!("{by} reported that {what} is {status}{note}"));
    }
    let healthy = field(fields, "DeploymentStatus.Healthy").map(|field| &field.new);
    let healthy = healthy.or_else(|| field(fields, "DeploymentStatus").map(|field| &field.new["Healthy"]));
    match healthy.and_then(serde_json::Value::as_bool) {
        Some(true) => parts.push(format!("{what} became healthy for its deployment")),
        Some(false) => parts.push(format!("{what} became unhealthy for its deployment")),
        None => {}
    }
    (!parts.is_empty()).then(|| parts.join("; "))
}

fn field<'f>(fields: &'f [FieldChange], path: &str) -> Option<&'f FieldChange> {
    fields.iter().find(|field| field.path == path)
}

fn text_field<'f>(fields: &'f [FieldChange], path: &str) -> Option<&'f str> {
    field(fields, path)?.new.as_str().filter(|text| !text.is_empty())
}

fn id_field(fields: &[FieldChange], path: &str) -> Option<uuid::Uuid> {
    uuid::Uuid::try_parse(text_field(fields, path)?).ok()
}

/// An evaluation as it was when it was created.
fn evaluation(fields: Vec<FieldChange>) -> Option<Evaluation> {
    let row: serde_json::Map<_, _> = fields.into_iter().map(|field| (field.path, field.new)).collect();
    serde_json::from_value(serde_json::Value::Object(row)).ok()
}
