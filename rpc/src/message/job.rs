//! `Job`: requests that nodes forward for users of their HTTP. Only methods seen on the wire are here.

use std::collections::BTreeMap;

use songline_model::{Evaluation, Job, JobId, Str};

use super::message;
use crate::msgpack::RawValue;

message! {
    /// Asks for a job.
    read JobGetJob ("Job.GetJob" -> JobGetJobAnswer) {
        #[serde(rename = "JobID")]
        job_id: JobId,
        all: bool,
    }
}
message! {
    /// The job, if it exists.
    answer JobGetJobAnswer {
        job: Option<Job>,
    }
}
message! {
    /// Asks for the evaluations of a job.
    read JobEvaluations ("Job.Evaluations" -> JobEvaluationsAnswer) {
        #[serde(rename = "JobID")]
        job_id: JobId,
        all: bool,
    }
}
message! {
    /// The evaluations.
    answer JobEvaluationsAnswer {
        evaluations: Option<Vec<Evaluation>>,
    }
}
message! {
    /// Asks for the list of jobs.
    read JobList ("Job.List" -> JobListAnswer) {
        fields: Option<BTreeMap<Str, bool>>,
    }
}
message! {
    /// Stubs of the jobs.
    answer JobListAnswer {
        jobs: RawValue,
    }
}
message! {
    /// Registers a job.
    write JobRegister ("Job.Register" -> JobRegisterAnswer) {
        job: Option<Job>,
        enforce_index: bool,
        job_modify_index: u64,
        preserve_counts: bool,
        policy_override: bool,
        eval_priority: i64,
        eval: Option<Evaluation>,
        deployment: RawValue,
        submission: RawValue,
    }
}
message! {
    /// Result of the registration.
    answer JobRegisterAnswer {
        #[serde(rename = "EvalID")]
        eval_id: Str,
        eval_create_index: u64,
        job_modify_index: u64,
        warnings: Str,
    }
}
