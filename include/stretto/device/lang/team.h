// Teams: some of the ranks, numbered anew (OpenSHMEM 1.5).
//
// A team is a value: ranks start, start + stride, ... of the world. Making one takes no memory and
// no message, since teams need no words of their own to meet: what counts a meeting of two ranks
// counts all their meetings, whatever teams they are in (Shmem). So there may be any number of
// teams, over the same ranks or over some of them.
#pragma once

#include "stretto/device/lang/words.h"

namespace stretto::device {

struct Team {
  int start;
  int stride;
  int size;  // 0: no team; kAllPes
};

inline constexpr int kAllPes = -1;
// OpenSHMEM's SHMEM_TEAM_WORLD and SHMEM_TEAM_INVALID.
STRETTO_HOST_DEVICE Team team_world() { return {0, 1, kAllPes}; }
STRETTO_HOST_DEVICE Team team_invalid() { return {0, 0, 0}; }

// The number that `pe` of the world has in a team whose size is known, or -1.
STRETTO_HOST_DEVICE int number_in(const Team& team, int pe) {
  const int distance = pe - team.start;
  if (team.size <= 1 || team.stride == 0) return team.size >= 1 && distance == 0 ? 0 : -1;
  const int number = distance / team.stride;
  return number >= 0 && number < team.size && number * team.stride == distance ? number : -1;
}

STRETTO_HOST_DEVICE int pe_of(const Team& team, int number) {
  return team.start + number * team.stride;
}

// A team of the 64 ranks that there can be, in kTeamBits bits, and back. A team of one has no
// stride, whatever it was made with.
inline constexpr int kTeamBits = 20;
STRETTO_HOST_DEVICE uint64 mark_of(const Team& team) {
  const int stride = team.size > 1 ? team.stride : 0;
  return static_cast<uint64>(team.start) << 14 | static_cast<uint64>(stride + 64) << 7 |
         static_cast<uint64>(team.size);
}
STRETTO_HOST_DEVICE Team team_of_mark(uint64 mark) {
  return {static_cast<int>(mark >> 14 & 63), static_cast<int>(mark >> 7 & 127) - 64,
          static_cast<int>(mark & 127)};
}

// What refuses a call of a team, as the error record's argument.
inline constexpr const char* kOtherTeam = "team";
inline constexpr const char* kOtherCall = "call";
inline constexpr const char* kNotOfTeam = "not of team";
inline constexpr const char* kNoSuchRoot = "no such root";

}  // namespace stretto::device
