// swiglu, gelu, silu: element by element.
#include <algorithm>
#include <cmath>

#include "op/stage_values.h"
#include "op/stages/alike_rules.h"
#include "op/stages/elements.h"

namespace stretto {
namespace {

// Of an SiLU far below zero: fp32's exponentials end there.
constexpr double kVanishing = 0x1p-118;

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

// A function of one element: its value, and its slope there.
struct Activated {
  double value = 0, slope = 0;
};

Activated silu_of(double x) {
  const double s = sigmoid(x);
  return {x * s, s * (1 + x * (1 - s))};
}

Activated gelu_of(double x) {
  constexpr double kRoot = 0.7978845608028654;  // of 2 / pi
  const double t = std::tanh(kRoot * (x + 0.044715 * x * x * x));
  return {0.5 * x * (1 + t),
          0.5 * (1 + t) + 0.5 * x * (1 - t * t) * kRoot * (1 + 3 * 0.044715 * x * x)};
}

// Neither is steeper than this.
constexpr double kSteepest = 1.13;
// Of both: slopes change no faster, so far from 0 or farther.
double bend(double distance) { return std::min(0.8, (2 + distance) * std::exp(-distance)); }

// An error of its argument x of at most so much grows at most by this.
double gain(const Activated& of, double x, double largest_error) {
  const double nearest = std::max(0.0, std::fabs(x) - largest_error);
  return std::min(kSteepest, std::fabs(of.slope) + bend(nearest) / 2 * largest_error);
}

// Both are products of one row, whose error along the row itself makes both larger or smaller:
// their errors are added as they are.
void multiply_gates(const Stage&, DType dtype, const Rows& g, const Rows* with, Rows& out) {
  const Rows& u = *with;
  const double approximation = activation_roundoff(dtype);
  for_each_element(g, with, [&](int64_t row, size_t at, size_t other) {
    const Activated gate = silu_of(g.values[at]);
    const double steepness = gain(gate, g.values[at], g.errors[at]),
                 magnitude = std::fabs(gate.value);
    const double value = std::fabs(u.values[other]), reached = value + u.errors[other];
    const double rounded = approximation * magnitude * value + kVanishing * reached;
    out.values[at] = gate.value * u.values[other];
    const double deviation = steepness * reached * std::sqrt(g.variances[at]) +
                             magnitude * std::sqrt(u.variances[other]);
    out.set_error(row, at,
                  steepness * g.errors[at] * reached + magnitude * u.errors[other] + rounded,
                  squared(deviation) + squared(rounded));
  });
}

template <Activated (*kFunction)(double x)>
void activate(const Stage&, DType dtype, const Rows& x, const Rows*, Rows& out) {
  const double approximation = activation_roundoff(dtype);
  for_each_element(x, nullptr, [&](int64_t row, size_t at, size_t) {
    const Activated of = kFunction(x.values[at]);
    const double steepness = gain(of, x.values[at], x.errors[at]);
    const double rounded = approximation * (std::fabs(of.value) + 0x1p-2 * std::fabs(x.values[at]));
    out.values[at] = of.value;
    out.set_error(row, at, steepness * x.errors[at] + rounded,
                  squared(steepness) * x.variances[at] + squared(rounded));
  });
}

// An activation halves what is near 0, and of what is far from it keeps one sign.
double activated(double size) { return size * (0.5 + 0.2 * size / (size + 1)); }

ValueSizes activated_size(const ValueSizes& x, const ValueSizes&, bool) {
  return {activated(x.random), activated(x.integer), false};
}

ValueSizes gated_size(const ValueSizes& x, const ValueSizes& y, bool) {
  return {activated(x.random) * y.random, activated(x.integer) * y.integer, false};
}

}  // namespace

const StageRow stages::swiglu{.rule = stages::binary_rule,
                              .task = Opcode::swiglu,
                              .make = multiply_gates,
                              .sizes = gated_size,
                              .on_gpus = device::StageOf::swiglu,
                              .follows_tiles = true};
const StageRow stages::gelu{.rule = stages::unary_rule,
                            .task = Opcode::gelu,
                            .make = activate<gelu_of>,
                            .sizes = activated_size,
                            .on_gpus = device::StageOf::gelu,
                            .follows_tiles = true};
const StageRow stages::silu{.rule = stages::unary_rule,
                            .task = Opcode::silu,
                            .make = activate<silu_of>,
                            .sizes = activated_size,
                            .on_gpus = device::StageOf::silu,
                            .follows_tiles = true};

}  // namespace stretto
