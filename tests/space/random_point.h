// Random points of the whole space: an operator, a machine and a schedule. Many are legal, none is
// tame: sizes that nothing divides, fewer rows than ranks, few SMs, uneven nodes.
#pragma once

#include <random>
#include <string>

#include "stretto/machine.h"
#include "stretto/schedule.h"
#include "stretto/segment.h"

namespace stretto {

struct Point {
  Segment op;
  Machine machine;
  Schedule schedule;
};

// Small enough for every stage to take milliseconds.
Point random_point(std::mt19937_64& random);

// Its parts. Of few SMs mostly, in nodes that may be uneven.
Machine random_machine(std::mt19937_64& random, int ranks);
// Another value of one coordinate, or of two that go together.
void change_one(std::mt19937_64& random, const Machine& machine, Schedule& schedule);

// As the command line would say it, with the machine.
std::string to_string(const Point& point);

}  // namespace stretto
