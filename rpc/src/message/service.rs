//! `ServiceRegistration`: where services of allocations can be reached.

use songline_model::{ServiceRegistration, Str};

use super::{Written, message};

message! {
    /// Announces services.
    write ServiceUpsert ("ServiceRegistration.Upsert" -> Written) {
        services: Option<Vec<ServiceRegistration>>,
    }
}
message! {
    /// Takes an announcement back.
    write ServiceDelete ("ServiceRegistration.DeleteByID" -> Written) {
        #[serde(rename = "ID")]
        id: Str,
    }
}
message! {
    /// Asks who announced a service.
    read ServiceGet ("ServiceRegistration.GetService" -> ServiceGetAnswer) {
        service_name: Str,
        /// `N|key`: only N, the same ones for the same key.
        choose: Str,
    }
}
message! {
    /// They.
    answer ServiceGetAnswer {
        services: Option<Vec<ServiceRegistration>>,
    }
}
