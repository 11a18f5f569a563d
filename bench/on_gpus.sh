#!/usr/bin/env bash
# Verifies and measures everything on this machine's GPUs, then prints what it adds up to.
set -u
here=$(cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")" && pwd)
root=$(dirname "$here")

usage() {
  cat <<'TEXT'
usage: bench/on_gpus.sh FOLDER [--ranks R] [--steps LIST] [--minutes M] [--seconds S] [--suites LIST]
                        [--build DIR] [--commit ID]
  FOLDER     results: one JSON file and one log a step; those of earlier runs are overwritten
  --ranks    GPUs to use (default: all that nvidia-smi lists)
  --steps    some of those below, in the order in which they are to run (default: all that have a *)
  --minutes  the time of all steps together: one that begins gets what is left, what has no time is
             named and left out, and of a step that is cut off the rows that it has measured stay
  --seconds  the longest that a part of a step may take (default 900)
  --suites   of the step tests (default: all): test_serve,test_c,test_cli,test_fabric,test_measure,test_gpu,
             test_tables,test_run
  --build    folder with the programs (default: build/release; ./dev build release makes it)
  --commit   recorded with the results (default: git's)
Steps:
  kernels *    of what graphs, layers and moe take, compiled by all cores: they need not do it one by one
  tests *      what needs GPUs of all suites; with fewer than 8 GPUs again by 8 ranks that share them
  soak *       a million runs, bits compared
  gemm *       the GEMM beside cuBLAS
  tune         every shape of bench/shapes
  operators *  the fused operators, of many and of few rows
  graphs *     operators of several products, by their own library path (bench/shapes/layers.py dense)
  experts *    layers of experts, a list of shapes a part (bench/shapes/moe.py)
  torch *      the fused operators beside PyTorch in one process
  checks *     stretto.torch: numbers, gradients, graphs, compile, what calls take of the host
  layers *     what graphs measures, beside PyTorch, AsyncTP, symmetric memory and FlashInfer
  moe *        layers of experts beside PyTorch, DeepGEMM and FlashInfer (bench/shapes/layers.py experts)
  moved *      what moves rows to experts and back, beside the same (bench/shapes/layers.py moved)
  routed       of moe and moved what says most in four minutes, with what each kernel takes (expert_bars.py)
  grouped      products of experts alone beside PyTorch and DeepGEMM, on one GPU
  models *     whole models in PyTorch: prefill, decode, training
  steady       rows with M >= 4096 again, in turns of 100 ms
  language *   kernels of the device language
  serve *      changing row counts, and what a call takes of the host
  sanitizer    compute-sanitizer over a few tests
  unseen       shapes that nothing was tuned on: auto beside the library and PyTorch
  regret       the same beside a sweep, and beside an operation that measures when it is made
Local shapes come from bench/shapes: tp8.txt on 8 GPUs, tp8_local_on_R.txt on fewer; and, where there is
one, few_rows_on_R.txt. bench/report/unseen_summary.py FOLDER sums up unseen and regret.
TEXT
}
fail() { echo "on_gpus: $*" >&2; exit 2; }

[[ ${1:-} == -h || ${1:-} == --help ]] && { usage; exit 0; }
(( $# )) || { usage >&2; exit 2; }
folder=$1; shift
usual=kernels,tests,soak,gemm,operators,graphs,experts,torch,checks,layers,moe,moved,models,language,serve
known=$usual,routed,grouped,tune,steady,sanitizer,unseen,regret
all_suites=test_serve,test_c,test_cli,test_fabric,test_measure,test_gpu,test_tables,test_run
ranks= steps=$usual minutes= seconds=900 suites=$all_suites build=$root/build/release
commit=$(git -C "$root" rev-parse --short HEAD 2>/dev/null || echo unknown)
while (( $# )); do
  (( $# > 1 )) || fail "$1 needs a value"
  case "$1" in
    --ranks) ranks=$2 ;;
    --steps) steps=$2 ;;
    --minutes) minutes=$2 ;;
    --seconds) seconds=$2 ;;
    --suites) suites=$2 ;;
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
[[ -z $minutes || $minutes =~ ^[1-9][0-9]*$ ]] || fail "--minutes $minutes: a number from 1 up was expected"
(( ranks <= gpus )) || fail "--ranks $ranks, but there are $gpus GPUs"
for step in ${steps//,/ }; do
  [[ ,$known, == *,"$step",* ]] || fail "unknown step '$step'; --help lists them"
done
for suite in ${suites//,/ }; do
  [[ ,$all_suites, == *,"$suite",* ]] || fail "unknown suite '$suite'; --help lists them"
done
mkdir -p "$folder" || fail "cannot write to $folder"
folder=$(cd "$folder" && pwd)
shapes=$here/shapes/tp8_local_on_$ranks.txt
(( ranks == 8 )) && shapes=$here/shapes/tp8.txt
few_rows=$here/shapes/few_rows_on_$ranks.txt
today=$(date -u +%F)
export NCCL_NVLS_ENABLE=0 TORCH_SYMM_MEM_DISABLE_MULTICAST=1 NVSHMEM_DISABLE_NVLS=1
# What is measured is what the shipped files choose, unless a step says otherwise.
export STRETTO_MEASURE_MS=${STRETTO_MEASURE_MS:-0}
export STRETTO_MACHINE_PATH=${STRETTO_MACHINE_PATH:-$root/machines}

# Where NCCL came with PyTorch alone, that one; beside PyTorch both take the same anyway.
if [[ -z ${STRETTO_NCCL_PATH:-} ]]; then
  nccl=$(python3 -c 'import nvidia.nccl as nccl; print(list(nccl.__path__)[0])' 2>/dev/null)/lib
  [[ -e $nccl/libnccl.so.2 ]] && export STRETTO_NCCL_PATH=$nccl
fi

program() { find "$build" -name "$1" -type f -perm -u+x 2>/dev/null | head -1; }
has_step() { [[ ,$steps, == *,"$1",* ]]; }
# Where there is a library, Stretto takes part beside PyTorch.
library=$(find "$build" -name libstretto.so -type f 2>/dev/null | head -1)
[[ -n $library ]] || library=$(find "$build" -name 'libstretto.so.*' -type f 2>/dev/null | head -1)
[[ -n $library ]] && export STRETTO_LIBRARY=$library

# What is missing is said before anything runs.
declare -A programs=([tests]="${suites//,/ }" [soak]=soak [gemm]=gemm_bench [tune]=stretto
                     [operators]=stretto [kernels]=stretto [graphs]=stretto [experts]=stretto [steady]=stretto
                     [routed]=stretto [language]=lang_bench [serve]="serve_bench call_bench"
                     [sanitizer]="test_tables test_run"
                     [unseen]=stretto [regret]=stretto)
for step in ${steps//,/ }; do
  for needed in ${programs[$step]:-}; do
    [[ -n $(program "$needed") ]] || fail "no $needed in $build; ./dev build release makes it"
  done
  [[ ,tune,operators,torch,steady, == *,"$step",* && ! -f $shapes ]] && fail "no shapes for $ranks GPUs: $shapes"
  [[ ,checks,models, == *,"$step",* && -z $library ]] && fail "no libstretto.so in $build; ./dev build release makes it"
done

# How long a part that begins now may take: 0 where there is no time for it.
left() {
  local most=$seconds rest
  if [[ -n $minutes ]]; then
    rest=$((minutes * 60 - SECONDS))
    (( rest < 10 )) && rest=0
    (( rest < most )) && most=$rest
  fi
  echo "$most"
}

# part NAME COMMAND...: bounded, logged, and never the end of the others.
failures=0
part() {
  local name=$1 begin=$SECONDS status=0 most; shift
  most=$(left)
  rm -f "$folder/$name.json"  # a part that fails leaves no result of an earlier run
  if (( most == 0 )); then
    printf '%-22s left out: no time is left\n' "$name"
    return
  fi
  timeout -k 10 "$most" "$@" >"$folder/$name.log" 2>&1 || status=$?
  printf '%-22s %4d s  %s\n' "$name" "$((SECONDS - begin))" \
    "$( (( status == 0 )) && echo good || { (( status == 124 )) && echo "cut off after $most s"; } ||
       echo "exit $status, see $folder/$name.log")"
  (( status == 0 || status == 124 )) || failures=$((failures + 1))
}
# What goes on by itself until then ends a little before it would be cut off.
spare() { local most; most=$(left); echo $((most > 60 ? most - 30 : most)); }
# torch_part NAME ARGUMENT...: of torchrun, one process a GPU.
torch_part() {
  local name=$1; shift
  part "$name" env PYTHONPATH="$root/python${PYTHONPATH:+:$PYTHONPATH}" python3 -m torch.distributed.run --standalone \
    --nproc-per-node "$ranks" "$@"
}

run_tests() {
  # Some that need none have GPUs in their names.
  local gpu_tests='*Gpu*:*OfProcesses*:-*GpuCompile*:StubDriver.*:SharedGpusOfACommand.*:Measure.*' logs=() suite
  for suite in ${suites//,/ }; do
    part "$suite" "$(program "$suite")" --gtest_filter="$gpu_tests"
    [[ -s $folder/$suite.log ]] && logs+=("$folder/$suite.log")
  done
  record gpu_tests 1 "${logs[@]}"
  # With fewer GPUs, eight ranks share them.
  (( gpus < 8 )) || return 0
  local shared=$(((8 + gpus - 1) / gpus))
  logs=()
  for suite in test_fabric test_run test_measure test_serve; do
    [[ ,$suites, == *,"$suite",* ]] || continue
    part "${suite}_8_ranks" env STRETTO_RANKS_A_GPU=$shared "$(program $suite)" --gtest_filter="$gpu_tests"
    [[ -s $folder/${suite}_8_ranks.log ]] && logs+=("$folder/${suite}_8_ranks.log")
  done
  record gpu_tests_8_ranks $shared "${logs[@]}"
}
record() {
  local name=$1 shared=$2; shift 2
  (( $# )) || return 0
  python3 "$here/verify/gpu_tests.py" record "$@" --gpus "$gpus" --ranks-a-gpu "$shared" --machine "$name_of_gpu" \
    --commit "$commit" --out "$folder/$name.json" >"$folder/$name.log" 2>&1 || failures=$((failures + 1))
}
name_of_gpu=$name

run_soak() { part soak "$(program soak)" --ranks "$ranks"; }
run_gemm() { part gemm "$(program gemm_bench)" --commit "$commit" --date "$today" --out "$folder/gemm.json"; }
run_tune() {
  part tune "$(program stretto)" tune --shapes "$shapes" --ranks "$ranks" --commit "$commit" \
    --file "$folder/tuning.json"
  [[ -f $few_rows ]] && part tune_few_rows "$(program stretto)" tune --shapes "$few_rows" \
    --ranks "$ranks" --commit "$commit" --file "$folder/tuning.json"
}
# bench NAME SHAPES ARGUMENT...
bench() {
  local name=$1 file=$2; shift 2
  part "$name" "$(program stretto)" bench --shapes "$file" --ranks "$ranks" --commit "$commit" "$@" \
    --json -o "$folder/$name.json"
}
run_operators() {
  bench operators "$shapes" --strategy auto,sequential,decomposed,tiles
  [[ -f $few_rows ]] && bench few_rows "$few_rows" --strategy auto,library,low-latency,few-rows,tiles
}
# layers_of NAME LIST: shapes of bench/shapes/layers.py.
layers_of() { python3 "$here/shapes/layers.py" "$2" --on "$ranks" >"$folder/$1.txt"; }
# Choosing schedules takes the host longer than compiling, and the first shapes take most of the kernels.
run_kernels() {
  local list seconds=$((seconds < 60 ? seconds : 60))
  layers_of layers dense
  layers_of moe experts
  for list in layers moe; do
    head -25 "$folder/$list.txt" >"$folder/kernels_$list.txt"
    part "kernels_$list" "$(program stretto)" compile --shapes "$folder/kernels_$list.txt" --ranks "$ranks" \
      --strategy auto
  done
}
run_graphs() {
  layers_of graphs dense
  bench graphs "$folder/graphs.txt" --rounds 7 --no-cold \
    --strategy 'auto,library,low-latency,sequential,tiles,slices,split=2/tiles'
}
run_experts() {
  local list
  for list in ep8_local tp tp8_local ep; do
    python3 "$here/shapes/moe.py" "$list" --on "$ranks" >"$folder/experts_$list.txt"
    bench "experts_$list" "$folder/experts_$list.txt" --rounds 7 --no-cold --strategy auto,sequential,library,tiles
  done
  python3 "$here/shapes/moe.py" moved --on "$ranks" >"$folder/experts_moved.txt"
  bench experts_moved "$folder/experts_moved.txt" --rounds 7 --no-cold --strategy auto,sequential,low-latency,tiles
}
# beside_torch NAME SHAPES ARGUMENT...
beside_torch() {
  local name=$1 file=$2; shift 2
  torch_part "$name" --max-restarts 5 "$here/contests/torch_baselines.py" --shapes "$file" --commit "$commit" \
    --seconds "$(spare)" --out "$folder/$name.json" "$@"
}
run_torch() {
  [[ -n $library ]] && torch_part python "$root/python/examples/with_torch.py"
  beside_torch torch "$shapes"
  part torch_all_reduce python3 "$here/contests/torch_all_reduce.py" --ranks "$ranks" \
    --commit "$commit" --out "$folder/torch_all_reduce.json"
}
run_checks() { torch_part checks "$root/python/tests/with_torch/on_gpus.py" --seconds "$(spare)"; }
run_layers() {
  layers_of layers dense
  torch_part layers --max-restarts 5 "$here/contests/layers.py" --shapes "$folder/layers.txt" --commit "$commit" \
    --seconds "$(spare)" --out "$folder/layers.json"
}
run_moe() {
  layers_of moe experts
  torch_part moe --max-restarts 5 "$here/contests/layers.py" --shapes "$folder/moe.txt" --commit "$commit" \
    --rounds 5 --seconds "$(spare)" --out "$folder/moe.json"
}
run_moved() {
  layers_of moved moved
  torch_part moved --max-restarts 5 "$here/contests/layers.py" --shapes "$folder/moved.txt" --commit "$commit" \
    --rounds 7 --seconds "$(spare)" --out "$folder/moved.json"
}
# Other people's kernels and ours compile at the same time, before anything is timed.
run_routed() {
  local all=$seconds first=$folder/routed_first.txt
  layers_of routed routed
  head -25 "$folder/routed.txt" >"$first"
  local seconds=$((all < 60 ? all : 60))
  part routed_libraries python3 "$here/rivals/warm_experts.py" --shapes "$first" --ranks "$ranks" &
  part routed_kernels "$(program stretto)" compile --shapes "$first" --ranks "$ranks" --strategy auto
  wait
  seconds=$all
  torch_part routed --max-restarts 5 "$here/contests/layers.py" --shapes "$folder/routed.txt" --commit "$commit" --rounds 3 \
    --kernels --beside library --beside 'library,mover=epilogue/y:library,mover=epilogue,reduction=slots' \
    --seconds "$(spare)" --out "$folder/routed.json"
  # Rates of products are among kept results, which a packed folder is without.
  [[ -s $folder/routed.json && -d $here/results ]] && python3 "$here/report/expert_bars.py" "$folder/routed.json"
}
run_grouped() {
  part grouped python3 "$here/experts/grouped_contest.py" --models qwen30b,dsv3,mixtral --tokens 64,1024,8192 \
    --seconds "$(spare)" --commit "$commit" --date "$today" --out "$folder/grouped.json"
}
run_models() {
  torch_part models "$here/models/models.py" --layers 8 --rounds 7 --commit "$commit" --seconds "$(spare)" \
    --out "$folder/models"
  cp "$folder/models/models.json" "$folder/models.json" 2>/dev/null
}
run_steady() {
  awk '{ for (i = 2; i <= NF; ++i) if ($i ~ /^m=/ && substr($i, 3) + 0 >= 4096) print }' "$shapes" \
    >"$folder/steady.txt"
  bench operators_steady "$folder/steady.txt" --turn 100 --rounds 5 --no-cold \
    --strategy auto,sequential,decomposed,tiles
  beside_torch torch_steady "$folder/steady.txt" --turn 100 --rounds 7
}
run_language() {
  part language "$(program lang_bench)" --ranks "$ranks" --commit "$commit" --date "$today" \
    --out "$folder/language.json"
}
run_serve() {
  part calls "$(program call_bench)" --ranks "$ranks" --schedules auto,low-latency,tiles
  part serve "$(program serve_bench)" --ranks "$ranks"
  part serve_low_latency "$(program serve_bench)" --ranks "$ranks" --m 512 --n 8192 --k 7168 \
    --schedule low-latency,rows=bucket
}
run_sanitizer() {
  if command -v compute-sanitizer >/dev/null || [[ -x ${CUDA_HOME:-/usr/local/cuda}/bin/compute-sanitizer ]]; then
    part sanitizer python3 "$here/verify/sanitize.py" --build "$build" --commit "$commit" \
      --seconds "$((seconds / 6))" --out "$folder/sanitizer.json"
  else
    echo "sanitizer: left out, for compute-sanitizer is not installed (the CUDA toolkit has it)"
  fi
}
unseen=$folder/unseen.txt
run_unseen() {
  python3 "$here/shapes/unseen.py" --on "$ranks" --mixed >"$unseen"
  [[ -n $library ]] && beside_torch unseen_torch "$unseen" --rounds 7
  bench unseen "$unseen" --rounds 7 --no-cold --strategy auto,library
}
run_regret() {
  python3 "$here/shapes/unseen.py" --on "$ranks" --mixed >"$unseen"
  part unseen_tuning "$(program stretto)" tune --shapes "$unseen" --ranks "$ranks" --commit "$commit" \
    --rounds 5 --no-cold --file "$folder/unseen_tuning.json"
  # It begins without what others have learnt.
  rm -f "$folder/unseen_measured.json"
  [[ -n $library ]] && STRETTO_MEASURE_MS=100 STRETTO_TUNING_CACHE=$folder/unseen_measured.json \
    beside_torch unseen_torch_measured "$unseen" --rounds 7
}

for step in ${steps//,/ }; do
  "run_$step"
done
{ has_step unseen || has_step regret; } && python3 "$here/report/unseen_summary.py" "$folder"

found=()
for name in operators torch operators_steady torch_steady; do
  [[ -s $folder/$name.json ]] && found+=("$folder/$name.json")
done
(( ${#found[@]} )) && python3 "$here/report/summary.py" "${found[@]}"
(( failures == 0 )) || { echo "on_gpus: $failures parts failed" >&2; exit 1; }
