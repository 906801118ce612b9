//! dd itself: `operands` -> `plan` -> `input` and `output` -> `copy`, with `monitor` as the one mouth.

pub mod conv;
pub mod human;
pub mod operands;
pub mod quote;
