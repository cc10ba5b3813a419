#!/bin/sh
# Builds the binary that people install, with a profile of the calls it spends its life with: built once to count,
# run under load, built again by the counts. A call then costs about a sixth less than in a plain release build.
# Ten minutes and more the first time, seconds if nothing changed. Prints the path of the binary.
set -eu
cd "$(dirname "$0")/.."

say() {
    echo "release: $*" >&2
}

host=$(rustc -vV | sed -n 's/^host: //p')
profdata=$(rustc --print sysroot)/lib/rustlib/$host/bin/llvm-profdata
if [ ! -x "$profdata" ]; then
    say "llvm-profdata of this toolchain is missing; install it with: rustup component add llvm-tools"
    exit 1
fi
mkdir -p "${CARGO_TARGET_DIR:-target}/trained"
target=$(cd "${CARGO_TARGET_DIR:-target}" && pwd)
trained=$target/trained

# With a target named, the flags are for what we ship and not for build scripts.
build() {
    RUSTFLAGS=$1 cargo build --release --quiet --locked -p sentinel --target "$host" --target-dir "$trained/$2"
}

train() {
    for era in legacy modern; do
        "$target/release/sentinel-bench" --sentinel "$1" --era "$era" --contender sentinel-http,sentinel-stdio,governed \
            --callers 16 --sizes 64,14336,1048576 --rounds 1 --window-ms 1500 >/dev/null
    done
}

say "1 of 3, a build that counts"
cargo build --release --quiet --locked -p sentinel-fixture -p sentinel-bench
build "-Cprofile-generate=$trained/counts" counting
counting=$trained/counting/$host/release/sentinel

# The profile is named by what it was made with, for cargo looks at flags and not at what they lead to.
profile=$trained/$(sha256sum "$counting" | cut -c1-16).profdata
if [ ! -e "$profile" ]; then
    say "2 of 3, calls of both eras for half a minute"
    rm -rf "$trained/counts" "$trained/by-profile" "$trained"/*.profdata
    train "$counting"
    "$profdata" merge -o "$profile.part" "$trained/counts"
    mv "$profile.part" "$profile"
fi

say "3 of 3, the build by those counts"
build "-Cprofile-use=$profile" by-profile
echo "$trained/by-profile/$host/release/sentinel"
