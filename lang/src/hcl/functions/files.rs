//! Functions that read files: a server has no files to show, so they exist and refuse.

use super::{Failure, Function, Parameter, Takes};
use crate::hcl::value::Value;

const PATH: &[Parameter] = &[("path", Takes::Text)];

const fn refusing(name: &'static str, parameters: &'static [Parameter]) -> Function {
    Function { name, parameters, rest: None, run: refuse }
}

fn refuse(_arguments: &[Value]) -> Result<Value, Failure> {
    Err(Failure::Call("filesystem function disabled".to_string()))
}

pub(super) const FUNCTIONS: &[Function] = &[
    refusing("abspath", PATH),
    refusing("basename", PATH),
    refusing("dirname", PATH),
    refusing("file", PATH),
    refusing("filebase64", PATH),
    refusing("fileexists", PATH),
    refusing("fileset", &[("path", Takes::Text), ("pattern", Takes::Text)]),
    refusing("pathexpand", PATH),
];
