//! `Job`: what nodes pass on for those who ask their HTTP. Only what was seen on the wire is here.

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
    /// It, if it is there.
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
    /// They.
    answer JobEvaluationsAnswer {
        evaluations: Option<Vec<Evaluation>>,
    }
}
message! {
    /// Asks which jobs there are.
    read JobList ("Job.List" -> JobListAnswer) {
        fields: Option<BTreeMap<Str, bool>>,
    }
}
message! {
    /// Stubs of them.
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
    /// What came of it.
    answer JobRegisterAnswer {
        #[serde(rename = "EvalID")]
        eval_id: Str,
        eval_create_index: u64,
        job_modify_index: u64,
        warnings: Str,
    }
}
