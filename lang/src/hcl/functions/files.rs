//! Functions that read files. They exist and return an error, since a server gives no access to its files.

use super::{Called, Function, Parameter, Takes, fail, plain};
use crate::hcl::value::Value;

const PATH: &[Parameter] = &[("path", Takes::Text)];

fn refuse(_given: &[Value]) -> Called {
    fail("filesystem function disabled")
}

pub(super) const FUNCTIONS: &[Function] = &[
    plain("abspath", PATH, refuse),
    plain("basename", PATH, refuse),
    plain("dirname", PATH, refuse),
    plain("file", PATH, refuse),
    plain("filebase64", PATH, refuse),
    plain("fileexists", PATH, refuse),
    plain("fileset", &[("path", Takes::Text), ("pattern", Takes::Text)], refuse),
    plain("pathexpand", PATH, refuse),
];
