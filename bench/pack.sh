#!/usr/bin/env bash
# Makes a folder that verifies and measures on another machine of the same distribution, which has GPUs but no compiler.
set -euo pipefail
root=$(cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/.." && pwd)

usage() {
  cat <<'TEXT'
usage: bench/pack.sh FOLDER [--build DIR]
  FOLDER     is made anew: programs.tar.xz (the command, the library, benchmarks, tests for GPUs; stripped),
             what of the sources they read, and run.sh
  --build    folder with the programs (default: build/release; ./dev build release makes it)
There, without a compiler of C++, as the same user on every machine of the job:
  FOLDER/run.sh bench/on_gpus.sh RESULTS --minutes 9 --steps layers,checks
  FOLDER/run.sh stretto doctor
TEXT
}
fail() { echo "pack: $*" >&2; exit 2; }

[[ ${1:-} == -h || ${1:-} == --help ]] && { usage; exit 0; }
(( $# )) || { usage >&2; exit 2; }
folder=$1; shift
build=$root/build/release
while (( $# )); do
  case "$1" in
    --build) (( $# > 1 )) || fail "--build needs a value"; build=$2; shift ;;
    *) fail "unknown option '$1'; --help lists them" ;;
  esac
  shift
done
[[ -d $build ]] || fail "no folder $build; ./dev build release makes it"
build=$(cd "$build" && pwd)
[[ $build == "$root"/* ]] || fail "$build is not in $root, whose tests know where it is"
[[ ! -e $folder || -x $folder/run.sh ]] || fail "$folder exists, and is no folder that this has made"

most_bytes=$((60 << 20))
programs=(stretto libstretto.so call_bench serve_bench learn_bench soak lang_bench gemm_bench plan_bench
          test_gpu test_tables test_fabric test_run test_measure test_serve test_c test_cli)
# These every machine of the distribution has.
everywhere='^(linux-vdso|ld-linux.*|lib(c|m|dl|rt|pthread|stdc\+\+|gcc_s|z))\.'

rm -rf "$folder"
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)
stage=$(mktemp -d)
chmod 755 "$stage"
trap 'rm -rf "$stage"' EXIT
inside=${build#"$root"/}
for name in "${programs[@]}"; do
  found=$(find "$build" -name "$name" \( -type f -perm -u+x -o -type l \) | head -1)
  [[ -n $found ]] || fail "no $name in $build; ./dev build release makes it"
  place=$stage/$inside/${found#"$build"/}
  mkdir -p "$(dirname "$place")" "$stage/lib"
  strip -o "$place" "$(readlink -f "$found")"
  ldd "$found" | awk '$3 ~ /^\// { print $1, $3 }' | while read -r library path; do
    [[ $library =~ $everywhere ]] || cp -L "$path" "$stage/lib/$library"
  done
done
for path in bench python include machines models operators examples integrations tests/cli tests/serve pyproject.toml; do
  mkdir -p "$folder/$(dirname "$path")"
  cp -r "$root/$path" "$folder/$(dirname "$path")/"
done
rm -rf "$folder/bench/results" "$folder/bench/host"
find "$folder" -name __pycache__ -type d -prune -exec rm -rf {} +
tar -C "$stage" -cJf "$folder/programs.tar.xz" .
git -C "$root" rev-parse --short HEAD >"$folder/commit" 2>/dev/null || echo unknown >"$folder/commit"

cat >"$folder/run.sh" <<TEXT
#!/usr/bin/env bash
# run.sh COMMAND...: with what this folder has. Programs are unpacked once.
set -eu
here=\$(cd "\$(dirname "\$(readlink -f "\${BASH_SOURCE[0]}")")" && pwd)
built_in=$root inside=$inside
TEXT
cat >>"$folder/run.sh" <<'TEXT'
(( $# )) || { echo "usage: $0 COMMAND..." >&2; exit 2; }
if [[ ! -d $here/unpacked ]]; then
  new=$(mktemp -d "$here/unpacking.XXXXXX")
  tar -C "$new" -xJf "$here/programs.tar.xz" 2>/dev/null || python3 -m tarfile -e "$here/programs.tar.xz" "$new"
  mv "$new" "$here/unpacked"
  ln -sfn unpacked/build "$here/build"
fi
# Some tests know where they were built.
[[ -e $built_in ]] || { mkdir -p "$(dirname "$built_in")" && ln -s "$here" "$built_in"; } 2>/dev/null ||
  echo "run.sh: $built_in cannot be made: tests of the command and of kernels of one's own cannot run" >&2
export LD_LIBRARY_PATH=$here/unpacked/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export PYTHONPATH=$here/python${PYTHONPATH:+:$PYTHONPATH} PATH=$here/$inside/src/cli:$PATH
export STRETTO_MACHINE_PATH=$here/machines STRETTO_LIBRARY=$here/$inside/src/c/libstretto.so
command=$1; shift
if [[ $command == bench/on_gpus.sh ]]; then
  (( $# )) || set -- --help
  results=$1; shift
  exec "$here/bench/on_gpus.sh" "$results" --build "$here/$inside" --commit "$(cat "$here/commit")" "$@"
fi
exec "$command" "$@"
TEXT
chmod +x "$folder/run.sh"
bytes=$(du -sb "$folder" | cut -f1)
(( bytes <= most_bytes )) || fail "$folder has $bytes bytes, more than $most_bytes"
echo "$folder: $((bytes >> 20)) MiB, programs.tar.xz $(($(stat -c %s "$folder/programs.tar.xz") >> 20))"
