// Emulated memory with what the detector remembers about it.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "fibre/budget.h"
#include "fibre/clock.h"
#include "stretto/fibre/finding.h"

namespace stretto::fibre {

class Engine;

enum class MemoryKind : uint8_t { kSymmetric, kLocal, kShared };

// An access as it is remembered.
struct Record {
  Event event;
  device::Where where;
  int launch = 0;
  bool strong = false;
  device::Scope scope = device::Scope::kSystem;
  bool observed = false;  // a read: of the value that the last write to the cell left
};

// The smallest piece of memory that is tracked on its own.
struct Cell {
  bool written = false;
  Record write;                                // event.seq 0: by the host
  std::vector<Record, Counted<Record>> reads;  // since that write; of ordered ones only the last
};

using Cells = std::vector<Cell, Counted<Cell>>;

struct Release {
  SharedClock clock;
  uint32_t actor = 0;
  device::Scope scope = device::Scope::kSystem;
};

// What a word held before a strong store.
struct OlderValue {
  uint64_t value = 0;
  size_t num_bytes = 0;
  std::vector<Release> releases;
  Event overwritten_by;
  uint64_t step = 0;  // when it was
};

// That a load saw what so many stores had left.
struct Sight {
  Event load;
  uint64_t num_stores = 0;
};

// A word that strong accesses use.
struct SyncWord {
  std::vector<Release> releases;  // what a reader of the present value acquires
  bool unseen = false;            // raised as a signal, and not read since
  Place raised_by;
  std::vector<OlderValue> older;  // of the last few stores; the last one's at the end
  uint64_t num_forgotten = 0;     // stores before those
  std::vector<Sight> sights;      // while there are older values

  uint64_t num_stores() const { return num_forgotten + older.size(); }
};

class Allocation {
 public:
  struct Copy {
    std::vector<uint8_t> bytes;
    Cells cells;
    std::unordered_map<int64_t, SyncWord> words;  // by offset
    uint32_t flights = 0;                         // stores on their way here
  };

  // Shared memory has one copy, the others one a rank.
  Allocation(std::string name, MemoryKind kind, int copies, size_t num_bytes, size_t granule);

  Copy& copy(int rank) { return copies_[kind == MemoryKind::kShared ? 0 : size_t(rank)]; }
  const Copy& copy(int rank) const { return copies_[size_t(rank)]; }
  int num_copies() const { return static_cast<int>(copies_.size()); }
  // Tracks pieces of at most this many bytes from now on.
  void refine(size_t granule);
  // "x[3]@1", in elements of the size that it was allocated with.
  std::string element_name(int rank, int64_t offset) const;

  const std::string name;
  const MemoryKind kind;
  const size_t num_bytes;
  const size_t element_bytes;
  size_t granule;
  Engine* engine = nullptr;  // whose host may access it
  int owner_rank = -1;       // of shared memory
  int owner_block = -1;

 private:
  std::vector<Copy> copies_;
};

}  // namespace stretto::fibre
