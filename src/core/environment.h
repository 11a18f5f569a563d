// Environment variables: fields of one struct, declared once, read once.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace stretto {

// X(field, variable, meaning)
#define STRETTO_ENVIRONMENT(X)                                                                    \
  X(machine_path, "STRETTO_MACHINE_PATH",                                                         \
    "folders with machine files (*.json), colon separated, searched before the shipped ones")     \
  X(cache_path, "STRETTO_CACHE_PATH",                                                             \
    "folder for compiled GPU kernels; ~/.cache/stretto when unset")                               \
  X(tuning_file, "STRETTO_TUNING_FILE",                                                           \
    "measured schedules: `auto` reads them, `stretto tune` adds to them; in the home folder "     \
    "(~/.local/share/stretto/tuning.json) when unset")                                            \
  X(tuning_cache, "STRETTO_TUNING_CACHE",                                                         \
    "file of what making operations has measured; in the cache folder "                           \
    "(~/.cache/stretto/measured-VERSION.json) when unset")                                        \
  X(measure_ms, "STRETTO_MEASURE_MS",                                                             \
    "how long making an operation may time schedules where `auto` is not sure, in milliseconds "  \
    "of runs, 0 to 60000; 0: never; 100 when unset")                                              \
  X(cuda_home, "CUDA_HOME", "folder of the CUDA toolkit, searched before /usr/local/cuda")        \
  X(nccl_path, "STRETTO_NCCL_PATH", "folder with libnccl.so.2, used instead of the system's")     \
  X(fabric, "STRETTO_FABRIC",                                                                     \
    "where symmetric memory comes from: peer, windows or exported; the best there is when unset") \
  X(ranks_a_gpu, "STRETTO_RANKS_A_GPU",                                                           \
    "ranks of one process that share a GPU, 1 to 8: plans of many ranks run on few GPUs, for "    \
    "their results and not for their times; 1 when unset")

struct Environment {
#define STRETTO_FIELD(field, variable, meaning) std::string field;
  STRETTO_ENVIRONMENT(STRETTO_FIELD)
#undef STRETTO_FIELD
};

// As the process found it at the first call; an unset variable is empty.
const Environment& environment();

// The project's folder of a kind: in what `variable` names, else in `in_home` of the home folder;
// empty when there is neither.
std::string user_folder(const char* variable, std::string_view in_home);

struct EnvironmentVariable {
  std::string_view variable;
  std::string_view meaning;
  std::string Environment::*field;
};
std::span<const EnvironmentVariable> environment_variables();

}  // namespace stretto
