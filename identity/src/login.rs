//! Result of a login: the claims of its token are mapped to names, binding rules select by these names, and the names
//! in the rules are filled in. The token is validated, and roles and policies are looked up, in other modules.

mod bind;
mod claims;
mod interpolate;
#[cfg(test)]
mod tests;

pub use bind::{BindError, Binding, bind};
pub use claims::{ClaimError, Identity, overlay};
pub use interpolate::TemplateError;
