#!/bin/sh
# Cargo calls this with rustc's path and arguments. Our own crates are built with libFuzzer's instrumentation; it needs no
# nightly toolchain. All others are built as ever, so that DataFusion is not built a second time.
set -eu
rustc=$1
shift
case "${CARGO_PKG_NAME:-}" in
resemblance | resemblance-fuzz)
    set -- "$@" --cfg fuzzing \
        -Cpasses=sancov-module \
        -Cllvm-args=-sanitizer-coverage-level=4 \
        -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
        -Cllvm-args=-sanitizer-coverage-pc-table \
        -Cllvm-args=-sanitizer-coverage-trace-compares
    ;;
esac
exec "$rustc" "$@"
