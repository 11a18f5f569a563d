// The ports of every GPU: its links inside the node and its share of the network, each way. A port
// serves pieces first come first served at its full rate.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "sim/costs.h"
#include "stretto/simulate.h"

namespace stretto::sim {

enum class Way : uint8_t { out, in };

class Ports {
 public:
  static constexpr uint32_t kPerRank = 4;

  explicit Ports(const Costs& costs, int ranks)
      : ports_(static_cast<size_t>(ranks) * kPerRank), uses_(static_cast<size_t>(ranks) * 2) {
    rate_[0] = costs.port_rate(false);
    rate_[1] = costs.port_rate(true);
  }

  static uint32_t index(int rank, bool network, Way way) {
    return static_cast<uint32_t>(rank) * kPerRank + (network ? 2 : 0) + (way == Way::in ? 1 : 0);
  }
  static int rank_of(uint32_t port) { return static_cast<int>(port / kPerRank); }

  struct Service {
    double start = 0, end = 0;
    bool woke = false;  // the port was idle
  };
  // `slowdown`: what the port, when full both ways, does to the GPU's gemms.
  Service serve(uint32_t port, double now, double bytes, double slowdown) {
    Port& p = ports_[port];
    const bool network = port % kPerRank >= 2;
    Service service;
    service.woke = !p.busy;
    service.start = std::max(now, p.free_at);
    service.end = service.start + move_us(bytes, rate_[network]);
    p.free_at = service.end;
    p.busy = true;
    // A network port carries less, and disturbs less.
    p.extra = (slowdown - 1) / 2 * (network ? std::min(1.0, rate_[1] / rate_[0]) : 1);
    if (port % 2 == 0) note_use(port, service.start, service.end);
    return service;
  }
  double free_at(uint32_t port) const { return ports_[port].free_at; }
  void set_idle(uint32_t port) {
    ports_[port].busy = false;
    ports_[port].extra = 0;
  }
  // How much longer a gemm of `rank` takes now, beyond 1.
  double slowdown(int rank) const {
    const Port* p = &ports_[static_cast<size_t>(rank) * kPerRank];
    return p[0].extra + p[1].extra + p[2].extra + p[3].extra;
  }

  std::vector<LinkUse> uses() const {
    std::vector<LinkUse> all;
    for (const auto& uses : uses_) all.insert(all.end(), uses.begin(), uses.end());
    return all;
  }
  // NCCL's own traffic: it is no customer of the ports but shows on them.
  void note_collective(int rank, double start, double end) {
    note_use(index(rank, false, Way::out), start, end);
  }

 private:
  struct Port {
    double free_at = 0;
    double extra = 0;
    bool busy = false;
  };

  void note_use(uint32_t port, double start, double end) {
    const bool network = port % kPerRank >= 2;
    const auto rank = static_cast<uint16_t>(port / kPerRank);
    std::vector<LinkUse>& uses = uses_[size_t{rank} * 2 + network];
    if (!uses.empty() && start <= uses.back().end_us) {
      uses.back().end_us = std::max(uses.back().end_us, end);
    } else {
      uses.push_back({rank, network, start, end});
    }
  }

  double rate_[2];
  std::vector<Port> ports_;
  std::vector<std::vector<LinkUse>> uses_;  // by rank and network
};

}  // namespace stretto::sim
