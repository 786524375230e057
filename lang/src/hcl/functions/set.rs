//! Functions on sets.

use super::{Called, Failure, Function, Parameter, Takes, fail, variadic};
use crate::hcl::convert::{as_set, unified};
use crate::hcl::value::{Sequence, Value};

const FIRST: &[Parameter] = &[("first_set", Takes::Set)];
const OTHERS: Parameter = ("other_sets", Takes::Set);

/// Largest number of combinations of a product.
const PRODUCT_MAX: usize = 100_000;

pub(super) const FUNCTIONS: &[Function] = &[
    variadic("setintersection", FIRST, OTHERS, |given| {
        let mut kept = items(given.first()).to_vec();
        for other in given.iter().skip(1) {
            kept.retain(|item| items(Some(other)).contains(item));
        }
        set(kept)
    }),
    variadic("setunion", FIRST, OTHERS, |given| {
        set(given.iter().flat_map(|set| items(Some(set)).iter().cloned()).collect())
    }),
    variadic("setproduct", &[], ("sets", Takes::Any), product),
];

fn items(set: Option<&Value>) -> &[Value] {
    match set {
        Some(Value::Sequence(_, items)) => items,
        _ => &[],
    }
}

fn set(items: Vec<Value>) -> Called {
    match unified(items) {
        Ok(items) => Ok(Value::Sequence(Sequence::Set, as_set(items))),
        Err(()) => fail("given sets must all have compatible element types"),
    }
}

fn product(given: &[Value]) -> Called {
    if given.len() < 2 {
        return fail("at least two arguments are required");
    }
    for (at, argument) in given.iter().enumerate() {
        if !matches!(argument, Value::Sequence(..)) {
            return Err(Failure::Argument(at, "a set or a list is required".to_string()));
        }
    }
    let mut rows: Vec<Vec<Value>> = vec![Vec::new()];
    for factor in given {
        let mut longer = Vec::new();
        for row in &rows {
            for item in items(Some(factor)) {
                longer.push(row.iter().cloned().chain([item.clone()]).collect());
                if longer.len() > PRODUCT_MAX {
                    return fail(format!("the product has more than {PRODUCT_MAX} elements"));
                }
            }
        }
        rows = longer;
    }
    Ok(Value::list(rows.into_iter().map(Value::tuple).collect()))
}
