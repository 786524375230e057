//! What a login comes to: the claims of its token get names, binding rules select by them, and the names that rules bind are filled in.
//! Whether the token is to be believed, and whether the roles and policies exist, is not decided here.

mod bind;
mod claims;
mod interpolate;
#[cfg(test)]
mod tests;

pub use bind::{BindError, Binding, bind};
pub use claims::{ClaimError, Identity, overlay};
pub use interpolate::TemplateError;
