// Breaks a kernel from outside, to see whether its scenarios notice: one operation is left out or
// weakened wherever one line asks for it, or memory that has two slots has only one.
#pragma once

#include <algorithm>
#include <limits>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "stretto/fibre/pointer.h"

namespace stretto::fibre {

enum class Loss : uint8_t {
  kNone,
  kBarrier,   // of a block or warp; an _or gives the own value
  kFence,     // or quiet
  kSignal,    // is not raised
  kRelease,   // a release is relaxed
  kAcquire,   // what a load or wait sees is not acquired
  kWait,      // goes on with what is there
  kSentinel,  // the same for a wait that looks at the data itself
};

struct Lost {
  Loss loss = Loss::kNone;
  std::string file;  // without its folders
  int line = 0;
  friend auto operator<=>(const Lost&, const Lost&) = default;
};

// Memory `name` in which slots of `stride` elements take turns, from `begin` up to `end`: what goes
// to the last of them goes to the first.
struct Fold {
  std::string name;
  int64_t slots = 2;
  int64_t stride = 0;  // 0: the slots are all of the memory
  int64_t begin = 0;
  int64_t end = std::numeric_limits<int64_t>::max();
};

// Of the worlds that this OS thread runs.
struct Mutation {
  Lost lost;
  std::vector<Fold> folds;
  std::set<Lost>* asked = nullptr;  // what could be lost is added
};

inline Mutation& mutation() {
  thread_local Mutation mutation;
  return mutation;
}

inline bool is_lost(Loss loss, Where where) {
  const Mutation& now = mutation();
  if (now.asked == nullptr && now.lost.loss != loss) return false;
  std::string_view file = where.file;
  file.remove_prefix(std::min(file.size(), file.rfind('/') + 1));
  if (now.asked != nullptr) now.asked->insert({loss, std::string(file), where.line});
  return now.lost.loss == loss && now.lost.line == where.line && now.lost.file == file;
}

// Where the access goes.
Address folded(Address address);

}  // namespace stretto::fibre
