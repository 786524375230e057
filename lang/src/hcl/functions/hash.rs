//! Digests of text, in lower-case hexadecimal.

use md5::{Digest, Md5};
use sha2::{Sha256, Sha512};

use super::{Called, Function, Parameter, Takes, plain, text_of};
use crate::hcl::value::Value;

const TEXT: &[Parameter] = &[("str", Takes::Text)];

pub(super) const FUNCTIONS: &[Function] = &[
    plain("md5", TEXT, |given| digest(&Md5::digest(text_of(given, 0)))),
    plain("sha256", TEXT, |given| digest(&Sha256::digest(text_of(given, 0)))),
    plain("sha512", TEXT, |given| digest(&Sha512::digest(text_of(given, 0)))),
];

fn digest(bytes: &[u8]) -> Called {
    Ok(Value::Text(bytes.iter().map(|byte| format!("{byte:02x}")).collect()))
}
