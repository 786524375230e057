//! `ServiceRegistration`: addresses of services of allocations.

use songline_model::{ServiceRegistration, Str};

use super::{Written, message};

message! {
    /// Writes service registrations.
    write ServiceUpsert ("ServiceRegistration.Upsert" -> Written) {
        services: Option<Vec<ServiceRegistration>>,
    }
}
message! {
    /// Deletes a service registration.
    write ServiceDelete ("ServiceRegistration.DeleteByID" -> Written) {
        #[serde(rename = "ID")]
        id: Str,
    }
}
message! {
    /// Asks for the registrations of a service.
    read ServiceGet ("ServiceRegistration.GetService" -> ServiceGetAnswer) {
        service_name: Str,
        /// `N|key`: only N registrations, the same ones for the same key.
        choose: Str,
    }
}
message! {
    /// The registrations.
    answer ServiceGetAnswer {
        services: Option<Vec<ServiceRegistration>>,
    }
}
