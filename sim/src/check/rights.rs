//! Rights: an operation is not done for a caller without the right to it.

/// A caller's operation that was answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Access {
    /// The caller.
    pub caller: String,
    /// The operation.
    pub operation: String,
    /// Whether the caller had the right to it at any time during the operation.
    pub may: bool,
    /// Status code of the answer.
    pub status: u16,
}

/// An operation that was done without the right to it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{} may not {} and got {}", .0.caller, .0.operation, .0.status)]
pub struct AccessError(pub Access);

/// Checks one answer. A refusal is always right: a server that does not lead any more may not know of a new right.
pub fn access_is_right(access: &Access) -> Result<(), AccessError> {
    if access.status == 200 && !access.may {
        return Err(AccessError(access.clone()));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
