//! Tables of what dd is given and what it answers. They run against fdd, and with `DD_UNDER_TEST=gnu` against the
//! installed GNU dd, which proves them.
#![allow(clippy::unwrap_used, reason = "tests")]

mod support;

#[path = "cli/blocks.rs"]
mod blocks;
#[path = "cli/conversions.rs"]
mod conversions;
#[path = "cli/descriptors.rs"]
mod descriptors;
#[path = "cli/differences.rs"]
mod differences;
#[path = "cli/extensions.rs"]
mod extensions;
#[path = "cli/flags.rs"]
mod flags;
#[path = "cli/messages.rs"]
mod messages;
#[path = "cli/numbers.rs"]
mod numbers;
#[path = "cli/operands.rs"]
mod operands;
#[path = "cli/output.rs"]
mod output;
#[path = "cli/positions.rs"]
mod positions;
#[path = "cli/status.rs"]
mod status;
