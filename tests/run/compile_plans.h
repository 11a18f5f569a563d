// Kernels of many plans at once: a cold one takes seconds, and most plans have one of their own.
#pragma once

#include <algorithm>
#include <atomic>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "gpu_plans.h"
#include "tables/kernel_set.h"

namespace stretto::runtime {

inline void compile_plans(std::span<const Plan* const> plans) {
  std::vector<std::string> sources;
  for (const Plan* plan : plans) {
    for (cuda::KernelEntry& entry : cuda::kernels_of(*plan, "sm_90a")) {
      if (!entry.source.empty()) sources.push_back(std::move(entry.source));
    }
  }
  std::sort(sources.begin(), sources.end());
  sources.erase(std::unique(sources.begin(), sources.end()), sources.end());
  std::atomic<size_t> next = 0;
  std::vector<std::jthread> threads;
  for (unsigned i = 0; i < std::max(1u, std::thread::hardware_concurrency()); ++i) {
    threads.emplace_back([&] {
      for (size_t s = next++; s < sources.size(); s = next++) {
        shared_compiler().compile(sources[s], "sm_90a");
      }
    });
  }
}

inline void compile_plans(const std::vector<Plan>& plans) {
  std::vector<const Plan*> all;
  for (const Plan& plan : plans) all.push_back(&plan);
  compile_plans(all);
}

}  // namespace stretto::runtime
