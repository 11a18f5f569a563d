// Machine: a cluster as measured numbers. A data file (machines/*.json); every figure has a source.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace stretto {

// A rate that depends on the size of the piece: piecewise linear in log(size), flat outside.
struct RateCurve {
  struct Point {
    double x;  // bytes, blocks, ... as the field says
    double gb_per_s;
  };
  std::vector<Point> points;  // ascending x, never empty
  double at(double x) const;  // GB/s
};

struct Machine {
  std::string name;
  std::string description;
  std::string gpu;  // as the driver calls what plans will run on; no file says it, empty: not known
  int nodes = 1;
  int ranks_per_node = 8;
  int sms = 132;  // streaming multiprocessors of a GPU

  // Compute
  double gemm_tflops = 0;         // dense bf16/fp16 GEMM of all SMs on full tiles, random data
  double fp32_tflops = 0;         // fp32 GEMM of all SMs
  double tile_overhead_us = 0;    // what a tile costs beyond its MMAs: prologue and epilogue
  double hbm_gb_per_s = 0;        // read + write
  double block_hbm_gb_per_s = 0;  // read + write rate of one block that copies or reduces
  double l2_mb = 50;  // L2 cache of a GPU, in halves that keep copies of their own; 10^6 bytes

  // Links, per GPU and direction
  double link_gb_per_s = 0;     // one GPU's port inside the node, all GPUs sending at once
  double network_gb_per_s = 0;  // one GPU's share of the network between nodes (0: one node)
  double network_latency_us = 0;
  // SM push, GB/s out of a GPU by number of pushing blocks (x = blocks)
  RateCurve push_by_blocks;             // one pair of GPUs alone
  RateCurve push_all_by_blocks;         // all GPUs at once, each task to one peer
  RateCurve push_multi_by_blocks;       // all GPUs at once, loaded once and stored to every peer
  RateCurve copy_engine_by_bytes;       // copy engine push by bytes of one copy
  double copy_engine_all_gb_per_s = 0;  // out of a GPU when every GPU's copy engines push at once
  double epilogue_push_gb_per_s = 0;    // one SM storing its output tile to a peer
  RateCurve nccl_by_bytes;              // NCCL bus bandwidth by bytes out of a GPU
  int nccl_sms = 0;                     // SMs that a running NCCL collective takes

  // Fixed costs
  double signal_us = 0;          // a notify reaches its waiter in another GPU
  double local_signal_us = 0;    // the same inside a GPU
  double release_us = 0;         // time a notify adds after data are in flight
  double launch_us = 0;          // a kernel boundary inside a captured graph
  double chained_launch_us = 0;  // the same where the kernel starts while the one before it ends
  double copy_launch_us = 0;     // one copy-engine operation
  double nccl_launch_us = 0;     // one NCCL collective, beyond its bytes

  // Slowdown of running GEMM tiles while the GPU's port is full in both directions; half of it
  // when only one direction is
  double gemm_slowdown_sm_push = 1;      // movers are blocks or epilogues
  double gemm_slowdown_copy_engine = 1;  // movers are copy engines

  std::vector<std::string> sources;  // where the figures come from, in the file's order

  int ranks() const { return nodes * ranks_per_node; }
  double l2_bytes() const { return l2_mb * 1e6; }
  int node_of(int rank) const { return rank / ranks_per_node; }
  bool same_node(int a, int b) const { return node_of(a) == node_of(b); }
};

// Names of the machine files that can be found, sorted.
std::vector<std::string> machine_names();
// By name, or by path when `name` holds a slash or ends in .json. Throws UsageError or SystemError.
// Names are sought in the folders of STRETTO_MACHINE_PATH, then among the shipped files.
Machine load_machine(std::string_view name);
// Reads a machine file's text; `file_name` is what errors call it. Throws UsageError naming the
// file, the key and what would be right. docs/simulation.md describes the format.
Machine load_machine_text(std::string_view text, std::string_view file_name = "machine");
// The machine used when none is named: h200x8; beyond 8 ranks h200x16 with the nodes they need.
Machine default_machine(int ranks);
// For GPUs of the same kind with fewer SMs: what is of all SMs shrinks with them. More change
// nothing.
void limit_sms(Machine& machine, int sms);

}  // namespace stretto
