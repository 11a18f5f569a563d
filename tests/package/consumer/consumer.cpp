// A plan is proved, predicted and executed, and a kernel of the device language explored: this
// takes every library that the archive is linked with.
#include <stretto/check.h>
#include <stretto/emulate.h>
#include <stretto/fibre/catalog.h>
#include <stretto/lower.h>
#include <stretto/machine.h>
#include <stretto/schedule.h>
#include <stretto/simulate.h>
#include <stretto/version.h>

#include <cstdio>

int main() {
  using namespace stretto;
  const Operator op = parse_operator("gemm-rs m=512 n=256 k=512 ranks=4 dtype=bf16");
  const Machine machine = default_machine(op.ranks);
  const Plan plan = lower(op, parse_schedules("tiles", op, machine), machine);
  const bool proved = check(plan).clean();
  const bool verified = emulate(plan).verified;
  const fibre::CatalogEntry kernel = fibre::catalog().front();
  const bool explored = !fibre::explore(kernel.shape, kernel.scenario, {.num_seeds = 1}).failure;
  std::printf("stretto %s: proved %d, verified %d, explored %d, %.1f us\n", STRETTO_VERSION, proved,
              verified, explored, simulate(plan, machine).total_us);
  return proved && verified && explored ? 0 : 1;
}
