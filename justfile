# The commands that CONTRIBUTING names.

# Formatting, lints, documentation.
check:
    cargo fmt --all --check
    cargo clippy --workspace --all-targets -- -D warnings
    RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps

# Everything that README's test command runs.
test:
    cargo test --workspace

# Random jobs against GNU dd: `just gnu 100000 7`.
gnu jobs="20000" seed="1":
    FDD_JOBS={{jobs}} FDD_SEED={{seed}} cargo test --release -p fdd --test gnu random_jobs -- --nocapture

# The fault suite (root, FUSE, seccomp).
faults:
    FDD_NO_SKIP=1 cargo test -p fdd --test faults --test faults_strace --test nth_call

# The fault suite by one way of copying wherever that can be used: `just faults-by uring`.
faults-by strategy:
    FDD_STRATEGY={{strategy}} FDD_NO_SKIP=1 cargo test -p fdd --test faults

# What Miri can run.
miri:
    .ci/miri

# Figures: `just bench copy --quick`.
bench *args:
    cargo build --release
    cargo run --release -p fdd-bench -- {{args}}
