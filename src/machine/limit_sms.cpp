#include "stretto/machine.h"

namespace stretto {

void limit_sms(Machine& machine, int sms) {
  if (sms >= machine.sms) return;
  const double share = static_cast<double>(sms) / machine.sms;
  machine.gemm_tflops *= share;
  machine.fp32_tflops *= share;
  machine.sms = sms;
}

}  // namespace stretto
