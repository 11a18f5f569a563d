// What the emulator found wrong with a kernel.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "stretto/device/lang/words.h"

namespace stretto::fibre {

enum class FindingKind : uint8_t {
  kRace,       // two accesses, one a write, with nothing that orders them
  kUnwritten,  // a read of memory that nobody wrote
  kOutOfBounds,
  kMisaligned,
  kWrongRank,     // a pointer that this rank may not use: local to another, or translated twice
  kPutOnly,       // load or store to a rank that only puts and signals reach
  kDivergence,    // threads of a block at different barriers, or calls with different arguments
  kDisagreement,  // ranks make one call with different arguments
  kLostSignal,    // a signal was set over a value that nobody had seen
  kDeadlock,
  kLivelock,  // the step limit was reached
  kSilence,   // a thread computes and computes, with no operation of the language
  kMismatch,  // the scenario's own check of the results failed
};

const char* finding_name(FindingKind kind);

// One thread at one line of the kernel.
struct Place {
  int rank = -1;
  int block = 0;
  int thread = 0;
  int launch = 0;  // which kernel of the rank's stream, from 0
  device::Where where;
  bool known() const { return rank >= 0; }
};

std::string to_text(const Place& place);

struct Finding {
  FindingKind kind = FindingKind::kRace;
  std::string message;  // several lines: what, where, and both accesses
  Place place;          // the thread that ran into it
  Place other;          // the other access, where there is one
};

}  // namespace stretto::fibre
