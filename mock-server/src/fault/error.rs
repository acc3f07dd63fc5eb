//! What can be wrong with faults that were asked for. `fault` and `text` refuse with it.
//!
//! It must not decide what is refused.

/// Why faults were refused. It stands for itself.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum FaultError {
    /// Something is not of the form of a fault.
    #[error("`{given}` is no fault: write KIND:SHARE or KIND:SHARE:PARAMETER, as in error:0.01:503 for 1 %")]
    Shape {
        /// What was given.
        given: String,
    },
    /// The kind is not one of the known ones.
    #[error("`{given}` is no kind of fault: write one of {kinds}")]
    UnknownKind {
        /// What was given.
        given: String,
        /// The known ones.
        kinds: String,
    },
    /// A rate is not a share.
    #[error("`{given}` is no share of requests: write a number from 0 to 1, as in 0.05 for 5 %")]
    Rate {
        /// What was given.
        given: String,
    },
    /// A parameter is not what the kind needs, or out of bounds.
    #[error("`{given}` is no {parameter} of the fault `{kind}`: write {right}")]
    Parameter {
        /// The kind, as it is written.
        kind: String,
        /// What was given.
        given: String,
        /// What the parameter is.
        parameter: &'static str,
        /// What would be right.
        right: &'static str,
    },
    /// A parameter was given to a kind that has none.
    #[error("the fault `{kind}` has no parameter, and `{given}` was given: write {kind}:SHARE")]
    NoParameter {
        /// The kind, as it is written.
        kind: String,
        /// What was given.
        given: String,
    },
    /// There is a fault of this kind already.
    #[error("the fault `{kind}` is given twice: write each kind once")]
    Twice {
        /// The kind, as it is written.
        kind: String,
    },
    /// The rates together exceed 1.
    #[error("the shares of the faults add up to {sum}, more than all requests: their sum is 1 at most")]
    Sum {
        /// The sum of the rates.
        sum: f64,
    },
}
