// The parts of lang_bench: kernels of the device language on GPUs, verified, then timed.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "fabric/lang_group.h"
#include "lang/lang_kernel.h"
#include "rank_team.h"

namespace stretto::bench {

using Json = nlohmann::ordered_json;
using cuda::DeviceMemory;
using device::GpuBlock;
using device::uint32;
using device::uint64;
using device::Vec16;

struct LangBench {
  explicit LangBench(int ranks, size_t heap_bytes)
      : team(ranks), group(team.fabric(), heap_bytes) {}

  RankTeam team;
  fabric::LangGroup group;
  cuda::Compiler compiler;
};

// One memory a rank.
struct PerRank {
  PerRank(RankTeam& of, size_t num_bytes) : team(of) {
    for (int r = 0; r < team.ranks(); ++r) {
      team.fabric().device(r).make_current();
      memory.emplace_back(num_bytes);
    }
    clear();
  }
  void clear() {
    for (DeviceMemory& m : memory) {
      const std::vector<char> zeros(m.num_bytes());
      m.upload(zeros.data(), zeros.size());
    }
  }
  template <class T>
  T* at(int rank) const {
    return memory[static_cast<size_t>(rank)].as<T>();
  }
  template <class T>
  std::vector<T> download(int rank, size_t first, size_t count) const {
    std::vector<T> values(count);
    team.fabric().device(rank).make_current();
    if (count > 0) {
      memory[static_cast<size_t>(rank)].download(values.data(), count * sizeof(T),
                                                 first * sizeof(T));
    }
    return values;
  }
  RankTeam& team;
  std::vector<DeviceMemory> memory;
};

// A kernel on every rank's GPU.
class TeamKernel {
 public:
  TeamKernel(LangBench& bench, const cuda::LangKernelName& name, int max_threads,
             int shared_bytes = 0)
      : bench_(bench) {
    for (int r = 0; r < bench.team.ranks(); ++r) {
      bench.team.fabric().device(r).make_current();
      kernels_.push_back(std::make_unique<cuda::LangKernel>(
          bench.team.fabric().device(r), bench.compiler, name, max_threads, shared_bytes));
    }
  }
  template <class Args>
  void launch(int rank, int blocks, int threads, const Args& args) const {
    kernels_[static_cast<size_t>(rank)]->launch(bench_.team.stream(rank), blocks, threads,
                                                bench_.group.world(rank), args);
  }
  int registers() const { return kernels_[0]->kernel().registers(); }
  int local_bytes() const { return kernels_[0]->kernel().local_bytes(); }

 private:
  LangBench& bench_;
  std::vector<std::unique_ptr<cuda::LangKernel>> kernels_;
};

// Whole numbers from -8 to 8, both zeros too, never the same twice in a row: exact sums in fp32 and
// bf16.
inline float whole_number_at(uint64_t stream, uint64_t index) {
  uint64_t bits = (index + 1) * 0x9e3779b97f4a7c15ull + stream * 0xbf58476d1ce4e5b9ull;
  bits = (bits ^ (bits >> 31)) * 0x94d049bb133111ebull;
  const auto value = static_cast<float>(static_cast<int>((bits >> 40) % 17) - 8);
  return value == 0 && index % 2 != 0 ? -0.0f : value;
}
inline uint16_t bf16_bits(float value) {
  uint32_t bits;
  __builtin_memcpy(&bits, &value, 4);
  return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}
inline float bf16_value(uint16_t bits) {
  const uint32_t word = static_cast<uint32_t>(bits) << 16;
  float value;
  __builtin_memcpy(&value, &word, 4);
  return value;
}
// Rank r's element i is whole_number_at(r + 1, i).
inline void upload_whole_numbers(PerRank& to, size_t count) {
  to.team.each_rank([&](int rank) {
    std::vector<uint16_t> values(count);
    for (size_t i = 0; i < count; ++i) {
      values[i] = bf16_bits(whole_number_at(static_cast<uint64_t>(rank) + 1, i));
    }
    to.memory[static_cast<size_t>(rank)].upload(values.data(), count * 2);
  });
}

inline Json to_json(const Timing& t) {
  return {{"median_us", t.median_us},
          {"p99_us", t.p99_us},
          {"isolated_us", t.isolated_us},
          {"isolated_p99_us", t.isolated_p99_us}};
}

Json bench_all_reduce(LangBench& bench, const std::vector<int>& one_shot_blocks,
                      const std::vector<int>& two_shot_blocks, size_t max_bytes);
Json bench_all_reduce_norm(LangBench& bench, const std::vector<int>& hidden,
                           const std::vector<int>& tokens, const std::vector<int>& norm_blocks);
Json bench_sync(LangBench& bench);
Json bench_movers(LangBench& bench, size_t max_bytes);
Json bench_parts(LangBench& bench, const std::vector<int>& blocks,
                 const std::vector<int>& in_flight, size_t max_bytes);
Json bench_experts(LangBench& bench, const std::vector<int>& tokens);

}  // namespace stretto::bench
