#!/bin/sh
# Builds what the benchmark needs and runs it; arguments go to sentinel-bench.
#   bench/run.sh                 the full run of what `make release` builds, about fifteen minutes
#   bench/run.sh --plain ...     the same of a plain release build, while you change the code
#   bench/run.sh --quick         two minutes
#   bench/run.sh --help          everything else
set -eu
cd "$(dirname "$0")/.."

# A gateway given by path need not be built, and nginx and PostgreSQL may be left out of the contest.
build=trained
needs_nginx=yes
needs_postgres=yes
if [ "${1-}" = --plain ]; then
    shift
    build=plain
fi
for argument in "$@"; do
    case "$argument" in
        --sentinel | --sentinel=* | --help | -h) build=nothing ;;
        --contender | --contender=*) needs_nginx=no needs_postgres=no ;;
    esac
done

if [ "$needs_nginx" = yes ] && ! PATH="$PATH:/usr/sbin:/usr/local/sbin" command -v nginx >/dev/null; then
    echo "bench: nginx is not installed; install it with: apt-get install nginx-light" >&2
    exit 1
fi

if [ "$needs_postgres" = yes ] && ! PATH="$PATH:$(echo /usr/lib/postgresql/*/bin | tr ' ' :)" command -v pgbench >/dev/null; then
    echo "bench: PostgreSQL is not installed; install it with: apt-get install postgresql" >&2
    exit 1
fi

cargo build --release --quiet -p sentinel-fixture -p sentinel-bench
case "$build" in
    trained) set -- --sentinel "$(bench/release.sh)" "$@" ;;
    plain) cargo build --release --quiet -p sentinel ;;
esac
exec "${CARGO_TARGET_DIR:-target}/release/sentinel-bench" "$@"
