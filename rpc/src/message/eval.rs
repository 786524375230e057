//! `Eval` and `Plan`: the work of scheduler workers for a leader in another server. Only servers call these methods.
//!
//! The reference's names of methods and fields. Rows and plans are in the log's msgpack and not in the dialect of the
//! node RPC: both ends are servers of one cluster, and nothing of a row may be lost.

use songline_model::{Blob, Dur, EvalId, Str};

use super::{Empty, message};

/// Version of the schedulers. A leader delivers no evaluation to a worker of another version.
pub const SCHEDULER_VERSION: u16 = 1;

message! {
    /// Asks for an evaluation to work on, and waits for one.
    write EvalDequeue ("Eval.Dequeue" -> EvalDequeueAnswer) {
        /// Types of evaluations that the worker processes.
        schedulers: Option<Vec<Str>>,
        scheduler_version: u16,
        /// Longest wait.
        timeout: Dur,
    }
}
message! {
    /// An evaluation, or none within the timeout.
    plain EvalDequeueAnswer {
        /// Bytes of the row; empty without an evaluation.
        eval: Blob,
        /// Names the delivery.
        token: Str,
        /// The worker's view must have this index.
        wait_index: u64,
        /// Wall-clock time of the leader in Unix nanoseconds: a worker decides by the leader's clock.
        time: i64,
    }
}
message! {
    /// Ends a delivery whose work is done.
    write EvalAck ("Eval.Ack" -> Empty) {
        #[serde(rename = "EvalID")]
        eval_id: EvalId,
        token: Str,
    }
}
message! {
    /// Gives a delivery back, to be delivered again.
    write EvalNack ("Eval.Nack" -> Empty) {
        #[serde(rename = "EvalID")]
        eval_id: EvalId,
        token: Str,
        /// Message of the panic that ended the work; absent without one.
        panicked: Option<Str>,
    }
}
message! {
    /// Writes new and changed evaluations of a delivery.
    write EvalUpdate ("Eval.Update" -> Empty) {
        #[serde(rename = "EvalID")]
        eval_id: EvalId,
        eval_token: Str,
        /// Bytes of the list of rows.
        evals: Blob,
        /// Index of the delivered evaluation, the cause of the entry.
        cause_index: u64,
    }
}
message! {
    /// Gives a delivered evaluation to the blocked ones; nothing is written.
    write EvalReblock ("Eval.Reblock" -> Empty) {
        #[serde(rename = "EvalID")]
        eval_id: EvalId,
        eval_token: Str,
        /// Bytes of the row.
        eval: Blob,
    }
}
message! {
    /// Submits a plan of a delivery, and waits until its accepted part is applied.
    write PlanSubmit ("Plan.Submit" -> PlanSubmitAnswer) {
        #[serde(rename = "EvalID")]
        eval_id: EvalId,
        eval_token: Str,
        /// Bytes of the plan.
        plan: Blob,
    }
}
message! {
    /// Result of a plan.
    plain PlanSubmitAnswer {
        /// Bytes of the accepted part, allocations as their ids.
        result: Blob,
        /// Message of the applier's panic; absent without one.
        panicked: Option<Str>,
    }
}
