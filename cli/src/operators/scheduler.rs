//! `operator scheduler`: the configuration of the schedulers.

use clap::Args;
use serde_json::{Value, json};

use crate::args::Truth;
use crate::client::{Client, text, with_query};
use crate::exit::{Exit, Failure, Outcome, Tried};
use crate::format::Format;
use crate::layout::block;
use crate::{Context, General, Run, outln};

const CONFIG: &str = "/v1/operator/scheduler/configuration";

async fn configuration(client: &Client) -> Result<Value, Failure> {
    client.get(CONFIG).await.tried("Error querying scheduler configuration")
}

/// Arguments of `operator scheduler get-config`.
#[derive(Args)]
pub(crate) struct GetConfig {
    #[command(flatten)]
    general: General,
    #[command(flatten)]
    format: Format,
}

impl Run for GetConfig {
    async fn run(self, _: &Context) -> Outcome {
        self.format.wanted()?;
        let started = std::time::Instant::now();
        let answer = configuration(&self.general.client()?).await?;
        if self.format.print(&as_data(&answer, started.elapsed()))? {
            return Ok(Exit::DONE);
        }
        let config = &answer["SchedulerConfig"];
        let preemption = &config["PreemptionConfig"];
        outln!(
            "{}",
            block(&[
                ("Scheduler Algorithm", text(&config["SchedulerAlgorithm"]).to_owned()),
                ("Memory Oversubscription", config["MemoryOversubscriptionEnabled"].to_string()),
                ("Reject Job Registration", config["RejectJobRegistration"].to_string()),
                ("Pause Eval Broker", config["PauseEvalBroker"].to_string()),
                ("Preemption System Scheduler", preemption["SystemSchedulerEnabled"].to_string()),
                ("Preemption Service Scheduler", preemption["ServiceSchedulerEnabled"].to_string()),
                ("Preemption Batch Scheduler", preemption["BatchSchedulerEnabled"].to_string()),
                ("Preemption SysBatch Scheduler", preemption["SysBatchSchedulerEnabled"].to_string()),
                ("Modify Index", config["ModifyIndex"].to_string()),
            ])
        );
        Ok(Exit::DONE)
    }
}

/// The answer with the names of the reference's client: the index, and the time of the request in nanoseconds.
fn as_data(answer: &Value, took: std::time::Duration) -> Value {
    let mut data = answer.clone();
    if let Some(fields) = data.as_object_mut() {
        let index = fields.remove("Index").unwrap_or_default();
        fields.insert("LastIndex".to_owned(), index);
        fields.insert("RequestTime".to_owned(), json!(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX)));
    }
    data
}

/// Arguments of `operator scheduler set-config`.
#[derive(Args)]
pub(crate) struct SetConfig {
    #[command(flatten)]
    general: General,
    /// Only apply while the configuration was last changed at this index.
    #[arg(long)]
    check_index: Option<String>,
    /// `binpack` or `spread`.
    #[arg(long)]
    scheduler_algorithm: Option<String>,
    /// Whether tasks may use more memory than they reserve.
    #[arg(long)]
    memory_oversubscription: Option<Truth>,
    /// Whether job registrations are refused.
    #[arg(long)]
    reject_job_registration: Option<Truth>,
    /// Whether evaluations wait.
    #[arg(long)]
    pause_eval_broker: Option<Truth>,
    /// Whether batch jobs preempt others.
    #[arg(long)]
    preempt_batch_scheduler: Option<Truth>,
    /// Whether service jobs preempt others.
    #[arg(long)]
    preempt_service_scheduler: Option<Truth>,
    /// Whether sysbatch jobs preempt others.
    #[arg(long)]
    preempt_sysbatch_scheduler: Option<Truth>,
    /// Whether system jobs preempt others.
    #[arg(long)]
    preempt_system_scheduler: Option<Truth>,
}

impl SetConfig {
    /// The index that `-check-index` names.
    fn index(&self) -> Result<Option<u64>, Failure> {
        let Some(typed) = self.check_index.as_deref().filter(|typed| !typed.is_empty()) else { return Ok(None) };
        typed.parse().map(Some).tried(&format!("Error parsing check-index value {typed:?}"))
    }

    /// Changes what is said in a configuration.
    fn change(&self, config: &mut Value) {
        let all = [
            ("/SchedulerAlgorithm", self.scheduler_algorithm.as_ref().map(|name| json!(name))),
            ("/MemoryOversubscriptionEnabled", self.memory_oversubscription.map(|Truth(truth)| json!(truth))),
            ("/RejectJobRegistration", self.reject_job_registration.map(|Truth(truth)| json!(truth))),
            ("/PauseEvalBroker", self.pause_eval_broker.map(|Truth(truth)| json!(truth))),
            ("/PreemptionConfig/BatchSchedulerEnabled", self.preempt_batch_scheduler.map(|Truth(truth)| json!(truth))),
            (
                "/PreemptionConfig/ServiceSchedulerEnabled",
                self.preempt_service_scheduler.map(|Truth(truth)| json!(truth)),
            ),
            (
                "/PreemptionConfig/SysBatchSchedulerEnabled",
                self.preempt_sysbatch_scheduler.map(|Truth(truth)| json!(truth)),
            ),
            (
                "/PreemptionConfig/SystemSchedulerEnabled",
                self.preempt_system_scheduler.map(|Truth(truth)| json!(truth)),
            ),
        ];
        for (place, value) in all {
            if let (Some(there), Some(value)) = (config.pointer_mut(place), value) {
                *there = value;
            }
        }
    }
}

impl Run for SetConfig {
    async fn run(self, _: &Context) -> Outcome {
        let index = self.index()?;
        let client = self.general.client()?;
        let mut config = configuration(&client).await?["SchedulerConfig"].take();
        self.change(&mut config);
        let seen = index.or(config["ModifyIndex"].as_u64()).unwrap_or(0).to_string();
        let answer = client.put(&with_query(CONFIG, &[("cas", &seen)]), &config).await;
        if answer.tried("Error setting scheduler configuration")?["Updated"] == true {
            outln!("Scheduler configuration updated!");
            return Ok(Exit::DONE);
        }
        Err(Failure::new("Scheduler configuration could not be atomically updated, please try again"))
    }
}
