//! What dd promises when something fails, one room a kind of fault. `docs/promises.md` lists which test holds which
//! promise.

#[path = "support/devices.rs"]
mod devices;
#[path = "support/fault_run.rs"]
mod fault_run;
#[path = "support/faultfs.rs"]
mod faultfs;
#[path = "support/random.rs"]
mod random;
#[path = "support/sysfault.rs"]
mod sysfault;

#[path = "faults/calls.rs"]
mod calls;
#[path = "faults/descriptors.rs"]
mod descriptors;
#[path = "faults/ends.rs"]
mod ends;
#[path = "faults/flight.rs"]
mod flight;
#[path = "faults/jobs.rs"]
mod jobs;
#[path = "faults/late.rs"]
mod late;
#[path = "faults/limits.rs"]
mod limits;
#[path = "faults/media.rs"]
mod media;
#[path = "faults/peers.rs"]
mod peers;
#[path = "faults/refusals.rs"]
mod refusals;
#[path = "faults/rigs.rs"]
mod rigs;
#[path = "faults/table.rs"]
mod table;
