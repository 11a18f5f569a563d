// Waits of the host for work of all ranks that nothing on the GPUs gives up: collectives of NCCL.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "fabric/communicators.h"
#include "fabric/fabric.h"

namespace stretto::runtime {

// At first use NCCL connects.
inline constexpr std::chrono::seconds kFirstCallsTimeout(30);

// Which i < `count` have ended, once all have or the time is over.
std::vector<bool> ended_within(size_t count, std::chrono::milliseconds limit,
                               const std::function<bool(size_t i)>& has_ended);
// "ranks 0, 2 waited 30 s in WHAT, to which rank 1 did not come", of all ranks; empty: all ended.
// Those that have ended are those that did not come: an operation ends on all that come to it, or
// on none.
std::string describe_unended(std::string_view what, const std::vector<bool>& ended,
                             std::chrono::milliseconds limit);

// Collective. Makes the calls on every process, which enqueue on streams of its ranks, and waits
// until these have ended, as `is_idle` says. Where calls fail, or the time is over, all processes
// give `nccl` up, if there is one, and throw SystemError: it names who failed or is missing.
void make_calls(fabric::Fabric& fabric, fabric::Communicators* nccl, std::string_view what,
                std::chrono::milliseconds limit, const std::function<void()>& calls,
                const std::function<bool(int rank)>& is_idle);

}  // namespace stretto::runtime
