//! Announcements of service registrations. Readers wait only on lists, so the table's key is enough.

use songline_model::{ServiceRegistration, Str};
use songline_projections::tables;

use super::Announce;
use crate::event::{Right, Topic};

impl Announce for tables::ServiceRegistrations {
    const TOPIC: Option<Topic> = Some(Topic::of_nomad("Service").and_deleted().needs(Right::ReadJob));

    fn key(row: &ServiceRegistration) -> Str {
        row.id.clone()
    }

    fn namespace(row: &ServiceRegistration) -> Str {
        row.namespace.0.clone()
    }

    fn filter_keys(row: &ServiceRegistration) -> Option<Vec<Str>> {
        Some(vec![row.job_id.0.clone(), row.service_name.clone()])
    }
}
