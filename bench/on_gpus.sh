#!/usr/bin/env bash
# Verifies and measures everything on this machine's GPUs, then prints what it adds up to.
set -u
here=$(cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")" && pwd)
root=$(dirname "$here")

usage() {
  cat <<'TEXT'
usage: bench/on_gpus.sh FOLDER [--ranks R] [--steps LIST] [--seconds S] [--build DIR] [--commit ID]
  FOLDER     results: one JSON file and one log a step; those of earlier runs are overwritten
  --ranks    GPUs to use (default: all that nvidia-smi lists)
  --steps    some of tests,soak,gemm,tune,operators,experts,torch,steady,language,serve,sanitizer,unseen
             (default: all but tune, steady, sanitizer and unseen); soak: a million runs, bits compared; experts:
             layers of experts, a list of shapes a step; steady: rows with M >= 4096 again, in turns of 100 ms;
             unseen: shapes that nothing was tuned on, auto beside a sweep, the library and PyTorch
             (bench/unseen_summary.py FOLDER sums them up)
  --seconds  the longest a step may take (default 900)
  --build    folder with the programs (default: build/release; ./dev build release makes it)
  --commit   recorded with the results (default: git's)
Local shapes come from bench/shapes: tp8.txt on 8 GPUs, tp8_local_on_R.txt on fewer; and, where there is
one, few_rows_on_R.txt. Those of experts are made by bench/shapes/moe.py.
TEXT
}
fail() { echo "on_gpus: $*" >&2; exit 2; }

[[ ${1:-} == -h || ${1:-} == --help ]] && { usage; exit 0; }
(( $# )) || { usage >&2; exit 2; }
folder=$1; shift
ranks= steps=tests,soak,gemm,operators,experts,torch,language,serve seconds=900 build=$root/build/release
commit=$(git -C "$root" rev-parse --short HEAD 2>/dev/null || echo unknown)
while (( $# )); do
  (( $# > 1 )) || fail "$1 needs a value"
  case "$1" in
    --ranks) ranks=$2 ;;
    --steps) steps=$2 ;;
    --seconds) seconds=$2 ;;
    --build) build=$2 ;;
    --commit) commit=$2 ;;
    *) fail "unknown option '$1'; --help lists them" ;;
  esac
  shift 2
done

command -v nvidia-smi >/dev/null || fail "no nvidia-smi: this machine has no NVIDIA GPU to measure"
gpus=$(nvidia-smi --query-gpu=name --format=csv,noheader | wc -l)
name=$(nvidia-smi --query-gpu=name --format=csv,noheader | head -1)
[[ -n ${CUDA_VISIBLE_DEVICES:-} ]] && gpus=$(tr ',' '\n' <<<"$CUDA_VISIBLE_DEVICES" | wc -l)
ranks=${ranks:-$gpus}
[[ $ranks =~ ^[1-9][0-9]*$ ]] || fail "--ranks $ranks: a number from 1 up was expected"
[[ $seconds =~ ^[1-9][0-9]*$ ]] || fail "--seconds $seconds: a number from 1 up was expected"
(( ranks <= gpus )) || fail "--ranks $ranks, but there are $gpus GPUs"
for step in ${steps//,/ }; do
  [[ ,tests,soak,gemm,tune,operators,experts,torch,steady,language,serve,sanitizer,unseen, == *,"$step",* ]] ||
    fail "unknown step '$step'; --help lists them"
done
mkdir -p "$folder" || fail "cannot write to $folder"
folder=$(cd "$folder" && pwd)
shapes=$here/shapes/tp8_local_on_$ranks.txt
(( ranks == 8 )) && shapes=$here/shapes/tp8.txt
few_rows=$here/shapes/few_rows_on_$ranks.txt
today=$(date -u +%F)
export NCCL_NVLS_ENABLE=0 TORCH_SYMM_MEM_DISABLE_MULTICAST=1
# What is measured is what the shipped files choose, unless a step says otherwise.
export STRETTO_MEASURE_MS=${STRETTO_MEASURE_MS:-0}
export STRETTO_MACHINE_PATH=${STRETTO_MACHINE_PATH:-$root/machines}

program() { find "$build" -name "$1" -type f -perm -u+x 2>/dev/null | head -1; }
wanted() { [[ ,$steps, == *,"$1",* ]]; }
needs_shapes() { [[ -f $shapes ]] || fail "no shapes for $ranks GPUs: $shapes"; }

gpu_suites="test_gpu test_tables test_fabric test_run test_measure test_serve test_c test_cli"
# What is missing is said before anything runs.
declare -A programs=([tests]="$gpu_suites" [soak]=soak [gemm]=gemm_bench [tune]=stretto
                     [operators]=stretto [experts]=stretto [steady]=stretto [language]=lang_bench [serve]="serve_bench call_bench"
                     [sanitizer]="test_tables test_run" [unseen]=stretto)
for step in ${steps//,/ }; do
  for needed in ${programs[$step]:-}; do
    [[ -n $(program "$needed") ]] || fail "no $needed in $build; ./dev build release makes it"
  done
  [[ ,tune,operators,torch,steady, == *,"$step",* ]] && needs_shapes
done

# step NAME COMMAND...: bounded, logged, and never the end of the others.
failures=0
step() {
  local name=$1 begin=$SECONDS status=0; shift
  rm -f "$folder/$name.json"  # a step that fails leaves no result of an earlier run
  timeout -k 10 "$seconds" "$@" >"$folder/$name.log" 2>&1 || status=$?
  printf '%-22s %4d s  %s\n' "$name" "$((SECONDS - begin))" \
    "$( (( status == 0 )) && echo good || echo "exit $status, see $folder/$name.log")"
  (( status == 0 )) || failures=$((failures + 1))
}

if wanted tests; then
  # Some that need none have GPUs in their names.
  gpu_tests='*Gpu*:*OfProcesses*:-*GpuCompile*:StubDriver.*:SharedGpusOfACommand.*:Measure.*'
  logs=()
  for suite in $gpu_suites; do
    step "$suite" "$(program $suite)" --gtest_filter="$gpu_tests"
    logs+=("$folder/$suite.log")
  done
  step gpu_tests python3 "$here/gpu_tests.py" record "${logs[@]}" --gpus "$gpus" --machine "$name" \
    --commit "$commit" --out "$folder/gpu_tests.json"
  # With fewer GPUs, eight ranks share them.
  if (( gpus < 8 )); then
    shared=$(((8 + gpus - 1) / gpus)) logs=()
    for suite in test_fabric test_run test_measure test_serve; do
      step "${suite}_8_ranks" env STRETTO_RANKS_A_GPU=$shared "$(program $suite)" \
        --gtest_filter="$gpu_tests"
      logs+=("$folder/${suite}_8_ranks.log")
    done
    step gpu_tests_8_ranks python3 "$here/gpu_tests.py" record "${logs[@]}" --gpus "$gpus" \
      --ranks-a-gpu $shared --machine "$name" --commit "$commit" --out "$folder/gpu_tests_8_ranks.json"
  fi
fi
if wanted soak; then
  step soak "$(program soak)" --ranks "$ranks"
fi
if wanted gemm; then
  step gemm "$(program gemm_bench)" --commit "$commit" --date "$today" --out "$folder/gemm.json"
fi
if wanted tune; then
  step tune "$(program stretto)" tune --shapes "$shapes" --ranks "$ranks" --commit "$commit" \
    --file "$folder/tuning.json"
  [[ -f $few_rows ]] && step tune_few_rows "$(program stretto)" tune --shapes "$few_rows" \
    --ranks "$ranks" --commit "$commit" --file "$folder/tuning.json"
fi
if wanted operators; then
  step operators "$(program stretto)" bench --shapes "$shapes" --ranks "$ranks" --commit "$commit" \
    --strategy auto,sequential,decomposed,tiles --json -o "$folder/operators.json"
  [[ -f $few_rows ]] && step few_rows "$(program stretto)" bench --shapes "$few_rows" \
    --ranks "$ranks" --commit "$commit" --strategy auto,library,low-latency,tiles --json \
    -o "$folder/few_rows.json"
fi
# Where there is a library, Stretto takes part beside PyTorch.
library=$(find "$build" -name libstretto.so -type f 2>/dev/null | head -1)
[[ -n $library ]] && export STRETTO_LIBRARY=$library
if wanted experts; then
  for list in tp tp8_local ep ep8_local; do
    layers=$folder/experts_$list.txt
    python3 "$here/shapes/moe.py" "$list" --on "$ranks" >"$layers"
    step "experts_$list" "$(program stretto)" bench --shapes "$layers" --ranks "$ranks" --commit "$commit" \
      --rounds 7 --no-cold --strategy auto,sequential,library,tiles --json -o "$folder/experts_$list.json"
  done
fi
if wanted torch; then
  if [[ -n $library ]]; then
    step python env PYTHONPATH="$root/python" python3 -m torch.distributed.run --standalone \
      --nproc-per-node "$ranks" "$root/python/examples/with_torch.py"
  fi
  step torch python3 -m torch.distributed.run --standalone --nproc-per-node "$ranks" --max-restarts 5 \
    "$here/torch_baselines.py" --shapes "$shapes" --commit "$commit" --out "$folder/torch.json"
  step torch_all_reduce python3 "$here/torch_all_reduce.py" --ranks "$ranks" \
    --commit "$commit" --out "$folder/torch_all_reduce.json"
fi
if wanted steady; then
  awk '{ for (i = 2; i <= NF; ++i) if ($i ~ /^m=/ && substr($i, 3) + 0 >= 4096) print }' "$shapes" \
    >"$folder/steady.txt"
  step operators_steady "$(program stretto)" bench --shapes "$folder/steady.txt" --ranks "$ranks" \
    --turn 100 --rounds 5 --no-cold --commit "$commit" --strategy auto,sequential,decomposed,tiles \
    --json -o "$folder/operators_steady.json"
  step torch_steady python3 -m torch.distributed.run --standalone --nproc-per-node "$ranks" \
    --max-restarts 5 "$here/torch_baselines.py" --shapes "$folder/steady.txt" --turn 100 --rounds 7 \
    --commit "$commit" --out "$folder/torch_steady.json"
fi
if wanted language; then
  step language "$(program lang_bench)" --ranks "$ranks" --commit "$commit" --date "$today" \
    --out "$folder/language.json"
fi
if wanted serve; then
  step serve "$(program serve_bench)" --ranks "$ranks"
  step serve_low_latency "$(program serve_bench)" --ranks "$ranks" --m 512 --n 8192 --k 7168 \
    --schedule low-latency,rows=bucket
  step calls "$(program call_bench)" --ranks "$ranks" --schedules auto,low-latency,tiles
fi
if wanted sanitizer; then
  if command -v compute-sanitizer >/dev/null || [[ -x ${CUDA_HOME:-/usr/local/cuda}/bin/compute-sanitizer ]]; then
    step sanitizer python3 "$here/sanitize.py" --build "$build" --commit "$commit" \
      --seconds "$((seconds / 6))" --out "$folder/sanitizer.json"
  else
    echo "sanitizer: left out, for compute-sanitizer is not installed (the CUDA toolkit has it)"
  fi
fi
if wanted unseen; then
  unseen=$folder/unseen.txt
  python3 "$here/shapes/unseen.py" --on "$ranks" >"$unseen"
  step unseen "$(program stretto)" bench --shapes "$unseen" --ranks "$ranks" --commit "$commit" --rounds 7 \
    --no-cold --strategy auto,library --json -o "$folder/unseen.json"
  step unseen_tuning "$(program stretto)" tune --shapes "$unseen" --ranks "$ranks" --commit "$commit" \
    --rounds 5 --no-cold --file "$folder/unseen_tuning.json"
  if [[ -n $library ]]; then
    # Without and with what making an operation measures; the second begins without what others have learnt.
    torch_unseen() {
      step "$1" env STRETTO_MEASURE_MS="$2" STRETTO_TUNING_CACHE="$folder/unseen_measured.json" python3 \
        -m torch.distributed.run --standalone --nproc-per-node "$ranks" --max-restarts 5 \
        "$here/torch_baselines.py" --shapes "$unseen" --rounds 7 --commit "$commit" --out "$folder/$1.json"
    }
    rm -f "$folder/unseen_measured.json"
    torch_unseen unseen_torch 0
    torch_unseen unseen_torch_measured 100
  fi
  python3 "$here/unseen_summary.py" "$folder"
fi

found=()
for name in operators torch operators_steady torch_steady; do
  [[ -s $folder/$name.json ]] && found+=("$folder/$name.json")
done
(( ${#found[@]} )) && python3 "$here/summary.py" "${found[@]}"
(( failures == 0 )) || { echo "on_gpus: $failures steps failed" >&2; exit 1; }
