#include "cli/doctor_findings.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <thread>

#include "core/environment.h"
#include "core/file.h"
#include "core/text.h"
#include "fabric/job.h"
#include "fabric/memory_source.h"
#include "fabric/nccl_api.h"
#include "gpu/cublas_library.h"
#include "gpu/device.h"
#include "gpu/driver_api.h"
#include "gpu/jit_cache.h"
#include "gpu/nvrtc_api.h"
#include "gpu/shared_gpus.h"
#include "machine/find_machine.h"
#include "serve/learning.h"
#include "stretto/error.h"
#include "stretto/tune.h"
#include "tables/plan_limits.h"

namespace stretto::cli {
namespace {

constexpr const char* kToolkit =
    "install the CUDA toolkit (12.4 or newer), or set CUDA_HOME to the folder that it is in";

Finding missing(std::string name, std::string why, std::string to_do) {
  return {std::move(name), State::absent, std::move(why), std::move(to_do)};
}

// `look` returns what is good; what it throws is wrong.
template <class Look>
Finding finding_of(std::string name, std::string to_do, Look look) {
  try {
    return look();
  } catch (const std::exception& error) {
    return {std::move(name), State::wrong, error.what(), std::move(to_do)};
  }
}

Finding emulator() {
  return {"emulator", State::good,
          fmt::format("{} threads of this CPU", std::thread::hardware_concurrency())};
}

Finding driver() {
  if (const std::string& why = cuda::why_no_driver(); !why.empty()) {
    return missing("driver", why,
                   "install NVIDIA's driver (for CUDA 12.4 or newer); a container needs the GPUs "
                   "passed to it, as by docker run --gpus all");
  }
  return {"driver", State::good, "CUDA driver found"};
}

// "4 x NVIDIA H200, 132 SMs, sm_90a"
Finding gpus() {
  if (!cuda::why_no_driver().empty()) {
    return missing("GPUs", "none, since there is no driver", "");
  }
  return finding_of("GPUs", "see what nvidia-smi says of it", []() -> Finding {
    std::vector<std::string> kinds;
    std::string why_not;
    for (int i = 0; i < cuda::num_devices(); ++i) {
      const cuda::Device device(i);
      kinds.push_back(
          fmt::format("{}, {} SMs, {}", device.name(), device.num_sms(), device.arch()));
      if (why_not.empty()) why_not = cuda::why_not_on_arch(device.arch());
    }
    if (kinds.empty()) return missing("GPUs", "the driver sees none", "");
    const bool alike = std::all_of(kinds.begin(), kinds.end(),
                                   [&](const std::string& kind) { return kind == kinds[0]; });
    const std::string found =
        alike ? fmt::format("{} x {}", kinds.size(), kinds[0]) : "mixed: " + join(kinds, "; ");
    if (!why_not.empty()) return missing("GPUs", found, why_not);
    if (!alike) {
      return {"GPUs", State::wrong, found, "choose those alike by CUDA_VISIBLE_DEVICES"};
    }
    return {"GPUs", State::good, found};
  });
}

Finding peers() {
  const int count = cuda::num_devices();
  if (count < 2) return missing("peer access", "needs two GPUs", "");
  return finding_of("peer access", "see what nvidia-smi topo -p2p rw says", [&]() -> Finding {
    for (int from = 0; from < count; ++from) {
      for (int to = 0; to < count; ++to) {
        int can = from == to;
        if (!can) {
          cuda::check(cuda::driver().can_access_peer(&can, from, to), "asking for peer access");
        }
        if (can) continue;
        return {"peer access", State::wrong,
                fmt::format("GPU {} cannot reach GPU {}'s memory", from, to),
                "NVLink or PCIe must connect them directly, and a virtual machine must allow it"};
      }
    }
    return {"peer access", State::good, fmt::format("among all {} GPUs", count)};
  });
}

Finding compiler() {
  if (const std::string& why = cuda::why_no_compiler(); !why.empty()) {
    return missing("NVRTC", why, kToolkit);
  }
  return {"NVRTC", State::good, cuda::compiler_version()};
}

Finding cublas() {
  if (const std::string why = cuda::why_no_cublas(); !why.empty()) {
    return missing("cuBLAS", why, kToolkit);
  }
  return {"cuBLAS", State::good, "found"};
}

Finding nccl() {
  constexpr const char* kInstall =
      "install libnccl2 (2.18 or newer), or set STRETTO_NCCL_PATH to the folder of libnccl.so.2; "
      "without it strategies that NCCL moves data for do not run, and bench does not";
  if (const std::string& why = fabric::why_no_nccl(); !why.empty()) {
    return missing("NCCL", why, kInstall);
  }
  const std::string windows = fabric::why_no_windows();
  return {"NCCL", State::good,
          fabric::nccl_version() + (windows.empty() ? ", with windows" : "; " + windows)};
}

Finding tuning() {
  const std::string file = default_tuning_file();
  return finding_of(
      "tuning", "mend or remove the file, or unset STRETTO_TUNING_FILE", [&]() -> Finding {
        const Tuning all = load_tuning();
        const Tuning own = read_tuning(file);
        const std::string gpu = cuda::gpu_name();
        const auto& operators = all.operators();
        const auto measured = std::count_if(operators.begin(), operators.end(),
                                            [&](const auto& one) { return one.gpu == gpu; });
        const std::string of_file =
            file.empty()
                ? "none of them here, for there is no home folder to keep them in"
                : fmt::format("{} of them in {}", own.operators().size(), quote(file, 200));
        std::string found = fmt::format("{} operators measured, {}", operators.size(), of_file);
        if (!gpu.empty()) found += fmt::format("; {} on {}", measured, gpu);
        if (gpu.empty() || measured > 0) return {"tuning", State::good, found};
        return missing("tuning", found, "auto predicts until stretto tune has measured here");
      });
}

Finding cache() {
  const std::string folder = cuda::default_cache_folder();
  if (folder.empty()) {
    return missing("kernel cache", "there is no home folder to keep it in",
                   "set STRETTO_CACHE_PATH, or each process compiles its kernels again");
  }
  return finding_of("kernel cache", "set STRETTO_CACHE_PATH to a folder that can be written",
                    [&]() -> Finding {
                      namespace fs = std::filesystem;
                      std::error_code ignored;
                      if (!fs::exists(folder, ignored)) {
                        return {"kernel cache", State::good, quote(folder, 200) + ", still empty",
                                "stretto compile fills it ahead of time"};
                      }
                      check_writable(folder + "/probe");
                      size_t files = 0;
                      uintmax_t bytes = 0;
                      for (fs::directory_iterator it(folder, ignored), end; !ignored && it != end;
                           it.increment(ignored)) {
                        std::error_code vanished;
                        const uintmax_t size = it->file_size(vanished);
                        if (vanished) continue;
                        ++files;
                        bytes += size;
                      }
                      return {"kernel cache", State::good,
                              fmt::format("{}: {} kernels, {:.0f} MB", quote(folder, 200), files,
                                          static_cast<double>(bytes) / 1e6)};
                    });
}

Finding machines() {
  return finding_of("machines", "mend the file that stretto machines names", []() -> Finding {
    const std::vector<std::string> names = machine_names();
    for (const std::string& name : names) load_machine(name);
    return {"machines", State::good, join(names, ", ")};
  });
}

Finding job() {
  return finding_of("job", "see stretto env for what the variables mean", []() -> Finding {
    const auto job = fabric::job_from();
    if (!job) return {"job", State::good, "none: one process drives all ranks"};
    return {"job", State::good,
            fmt::format("rank {} of {}, started by {}", job->rank, job->size, job->started_by)};
  });
}

// Of those that nothing above reads. Commands read them when they need them, perhaps late.
Finding variables() {
  std::vector<std::string> wrong;
  const auto look = [&](const auto& read) {
    try {
      read();
    } catch (const UsageError& error) {
      wrong.emplace_back(error.what());
    }
  };
  look([] {
    const std::string& source = environment().fabric;
    if (source.empty()) return;
    try {
      fabric::source_from(source);
    } catch (const UsageError& error) {
      throw UsageError(fmt::format("STRETTO_FABRIC: {}", error.what()));
    }
  });
  look([] { measure_ms_of(environment().measure_ms); });
  look([] { cuda::ranks_a_gpu(); });
  look([] {  // jobs read it: of one rank, that has nothing else wrong
    fabric::job_from([](const char* name) -> const char* {
      const std::string_view variable = name;
      if (variable == "STRETTO_JOIN_SECONDS") return fabric::lookup_environment(name);
      if (variable == "STRETTO_RANK") return "0";
      return variable == "STRETTO_RANKS" ? "1" : nullptr;
    });
  });
  if (wrong.empty()) return {"variables", State::good, "all that are set can be read"};
  return {"variables", State::wrong, join(wrong, "; "),
          "see stretto env for what the variables mean"};
}

// Those of `needs` that are not good, as "driver, GPUs": why something does not work.
std::string lacking(const std::vector<Finding>& findings,
                    std::initializer_list<std::string_view> needs) {
  std::vector<std::string> names;
  for (const std::string_view need : needs) {
    for (const Finding& finding : findings) {
      if (finding.name == need && finding.state != State::good) names.push_back(finding.name);
    }
  }
  return join(names, ", ");
}

std::vector<Ability> abilities_with(const std::vector<Finding>& findings) {
  std::vector<Ability> abilities = {
      {"plan, check, simulate, model, explore, and run on emulated GPUs"}};
  const auto add = [&](std::string what, std::initializer_list<std::string_view> needs) {
    std::string lacks = lacking(findings, needs);
    const bool works = lacks.empty();
    abilities.push_back({std::move(what), works, std::move(lacks)});
  };
  add("compile GPU kernels ahead of time", {"NVRTC"});
  add(fmt::format("run --target cuda on GPUs that ranks share (STRETTO_RANKS_A_GPU, up to {})",
                  cuda::kMostRanksAGpu),
      {"driver", "GPUs", "NVRTC"});
  add("run --target cuda with a GPU a rank", {"driver", "GPUs", "peer access", "NVRTC"});
  add("strategies that cuBLAS multiplies or NCCL moves data for, as library",
      {"driver", "GPUs", "peer access", "NVRTC", "cuBLAS", "NCCL"});
  add("bench and tune", {"driver", "GPUs", "peer access", "NVRTC", "cuBLAS", "NCCL"});
  return abilities;
}

}  // namespace

std::string_view to_string(State state) {
  switch (state) {
    case State::good:
      return "ok";
    case State::absent:
      return "none";
    case State::wrong:
      return "WRONG";
  }
  return "";
}

Health look_around() {
  Health health;
  health.findings = {emulator(), driver(), gpus(),  peers(),    compiler(), cublas(),
                     nccl(),     tuning(), cache(), machines(), job(),      variables()};
  health.abilities = abilities_with(health.findings);
  return health;
}

}  // namespace stretto::cli
