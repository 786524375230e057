//! Comparison that decides whether a registration is a new version of its job.

use crate::{Job, Str};

impl Job {
    /// Whether the specification in `new` differs from this one. Fields that servers maintain are ignored: status,
    /// version, stability, indexes (including those of scaling policies), time of submission.
    pub fn spec_changed(&self, new: &Job) -> bool {
        let mut same = new.clone();
        same.status = self.status;
        same.status_description = self.status_description.clone();
        same.stable = self.stable;
        same.version = self.version;
        same.create_index = self.create_index;
        same.modify_index = self.modify_index;
        same.job_modify_index = self.job_modify_index;
        same.submit_time = self.submit_time;
        same.carry_scaling_policies(Some(self), Str::default);
        *self != same
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use crate::{Dur, Job, JobStatus, ScalingPolicy, Str, TaskGroup, Time};

    fn job() -> Job {
        let scaling =
            ScalingPolicy { id: "p1".into(), kind: "horizontal".into(), max: 5, modify_index: 7, ..Default::default() };
        let group = TaskGroup { name: "g".into(), count: 1, scaling: Some(scaling), ..Default::default() };
        Job { id: "j".into(), task_groups: Some(vec![group]), ..Default::default() }
    }

    type Change = (&'static str, fn(&mut Job));

    fn check(changes: &[Change], expected: Expect) {
        let lines: Vec<String> = changes
            .iter()
            .map(|(name, change)| {
                let mut new = job();
                change(&mut new);
                format!("{name}: {}\n", if job().spec_changed(&new) { "new version" } else { "same" })
            })
            .collect();
        expected.assert_eq(&lines.concat());
    }

    fn group(job: &mut Job) -> &mut TaskGroup {
        &mut job.task_groups.as_mut().unwrap()[0]
    }

    #[test]
    fn only_submitted_job_fields_make_a_new_version() {
        check(
            &[
                ("nothing", |_| {}),
                ("status", |job| job.status = JobStatus::Running),
                ("stable", |job| job.stable = true),
                ("version", |job| job.version = 3),
                ("indexes", |job| (job.create_index, job.modify_index, job.job_modify_index) = (1, 2, 3)),
                ("submit time", |job| job.submit_time = Time::from_nanos(9)),
                ("policy as submitted", |job| {
                    let policy = group(job).scaling.as_mut().unwrap();
                    (policy.id, policy.modify_index) = (Str::default(), 0);
                }),
                ("policy's max", |job| group(job).scaling.as_mut().unwrap().max = 6),
                ("count", |job| group(job).count = 2),
                ("stop", |job| job.stop = true),
                ("shutdown delay of zero", |job| group(job).shutdown_delay = Some(Dur::ZERO)),
                ("empty meta", |job| job.meta = Some(Default::default())),
            ],
            expect![[r#"
                nothing: same
                status: same
                stable: same
                version: same
                indexes: same
                submit time: same
                policy as submitted: same
                policy's max: new version
                count: new version
                stop: new version
                shutdown delay of zero: new version
                empty meta: new version
            "#]],
        );
    }
}
