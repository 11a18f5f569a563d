#include "lower/peer_order.h"

#include <algorithm>
#include <tuple>

namespace stretto {
namespace {

int wrap(int value, int modulus) { return (value % modulus + modulus) % modulus; }

// rank + step, rank + 2 * step, ... : all other ranks.
std::vector<int> rotation(int rank, int ranks, int step) {
  std::vector<int> peers;
  for (int i = 1; i < ranks; ++i) peers.push_back(wrap(rank + i * step, ranks));
  return peers;
}

// The peers in the node before (or after) all others. Both rotate: other nodes node by node, inside
// a node from the same place as `rank` has in its own, so that no rank is everyone's first.
std::vector<int> node_rotation(int rank, int ranks, int step, bool node_first,
                               const Machine& machine) {
  const int per_node = machine.ranks_per_node;
  const int nodes = (ranks + per_node - 1) / per_node;
  auto key = [&](int peer) {
    return std::tuple(machine.same_node(peer, rank) != node_first,
                      wrap(step * (machine.node_of(peer) - machine.node_of(rank)), nodes),
                      wrap(step * (peer - rank), per_node));
  };
  std::vector<int> peers = rotation(rank, ranks, step);
  std::sort(peers.begin(), peers.end(), [&](int a, int b) { return key(a) < key(b); });
  return peers;
}

}  // namespace

std::vector<int> peer_order(Order order, bool gathers, int rank, int ranks,
                            const Machine& machine) {
  const int step = gathers ? -1 : 1;
  if (order == Order::node_then_local) return node_rotation(rank, ranks, step, gathers, machine);
  return rotation(rank, ranks, step);
}

std::vector<int> owner_turns(Order order, bool gathers, int rank, int ranks,
                             const Machine& machine) {
  std::vector<int> sequence = rotation(rank, ranks, 1);
  switch (order) {
    case Order::plain:
      sequence.push_back(rank);
      std::sort(sequence.begin(), sequence.end());
      break;
    case Order::own_first:
    case Order::arrival:
      sequence.insert(sequence.begin(), rank);
      break;
    case Order::interleaved:
      sequence.insert(gathers ? sequence.begin() : sequence.end(), rank);
      break;
    case Order::peer_staggered:
      sequence.push_back(rank);
      break;
    case Order::node_then_local:
      sequence = node_rotation(rank, ranks, 1, gathers, machine);
      sequence.insert(gathers ? sequence.begin() : sequence.end(), rank);
      break;
  }
  std::vector<int> turns(static_cast<size_t>(ranks));
  for (int turn = 0; turn < ranks; ++turn) {
    turns[static_cast<size_t>(sequence[static_cast<size_t>(turn)])] = turn;
  }
  return turns;
}

}  // namespace stretto
