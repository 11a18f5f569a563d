/* Plans through the C interface. */
#include <stdio.h>
#include <stretto/c.h>
#include <stretto/version.h>
#include <string.h>

int main(void) {
  stretto_operator op = {.size = sizeof op,
                         .name = "gemm-rs",
                         .sizes = "m=512 n=256 k=512",
                         .ranks = 4,
                         .dtype = "bf16"};
  stretto_plan_request request = {.size = sizeof request, .op = &op, .schedule = "tiles"};
  stretto_plan* plan;
  const char *schedule, *reason;
  double us;
  if (stretto_plan_make(&request, &plan) != STRETTO_GOOD ||
      stretto_plan_predict(plan, &us) != STRETTO_GOOD ||
      stretto_plan_schedule(plan, &schedule, &reason) != STRETTO_GOOD) {
    fprintf(stderr, "%s\n", stretto_last_error());
    return 1;
  }
  printf("stretto %s: %s, %.1f us\n", stretto_version(), schedule, us);
  stretto_plan_close(plan);
  return strcmp(stretto_version(), STRETTO_VERSION) != 0;
}
