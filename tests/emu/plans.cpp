#include "plans.h"

#include <stdexcept>

namespace stretto::emu {

std::string reduce_scatter_by_slots() {
  return R"(stretto-plan 2
operator gemm-rs m=7 n=6 k=10 ranks=2 dtype=bf16
sms 2
buffer a bf16 7x5 input
buffer b bf16 6x5 input
buffer slots bf16 8x6 symmetric copies=2
buffer out bf16 4x6 output sharded=7
signals arrived 1 copies=2

lane 0 compute 0
  gemm #0 a[4:7,0:5] b[0:6,0:5] -> slots@1[0:3,0:6]
  notify arrived.0@1 += 1
  gemm #1 a[0:4,0:5] b[0:6,0:5] -> slots[0:4,0:6]
  notify arrived.0@0 += 1

lane 0 comm 0
  wait arrived.0 >= 2
  reduce #2 slots[0:4,0:6] slots[4:8,0:6] -> out[0:4,0:6]

lane 1 compute 0
  gemm #0 a[0:4,0:5] b[0:6,0:5] -> slots@0[4:8,0:6]
  notify arrived.0@0 += 1
  gemm #1 a[4:7,0:5] b[0:6,0:5] -> slots[4:7,0:6]
  notify arrived.0@1 += 1

lane 1 comm 0
  wait arrived.0 >= 2
  reduce #2 slots[0:3,0:6] slots[4:7,0:6] -> out[0:3,0:6]
end
)";
}

std::string reduce_scatter_with_ack() {
  std::string text = reduce_scatter_by_slots();
  text = replaced(text, "symmetric copies=2", "symmetric");
  text = replaced(text, "signals arrived 1 copies=2\n", "signals arrived 1\nsignals ack 1\n");
  text = replaced(text, "  gemm #0", "  wait ack.0 >= 1 lag 1\n  gemm #0", 0);
  text = replaced(text, "  gemm #0", "  wait ack.0 >= 1 lag 1\n  gemm #0", 1);
  text = replaced(text, "out[0:4,0:6]\n", "out[0:4,0:6]\n  notify ack.0@1 += 1\n");
  text = replaced(text, "out[0:3,0:6]\n", "out[0:3,0:6]\n  notify ack.0@0 += 1\n");
  return text;
}

std::string all_gather_by_copies() {
  return R"(stretto-plan 2
operator ag-gemm m=6 n=10 k=9 ranks=2 dtype=bf16
sms 2
buffer a bf16 3x9 input sharded=6
buffer b bf16 5x9 input
buffer ag bf16 6x9 symmetric copies=2
buffer out bf16 6x5 output
signals arrived 1 copies=2

lane 0 compute 0
  gemm #0 a[0:3,0:9] b[0:5,0:9] -> out[0:3,0:5]
  wait arrived.0 >= 1
  gemm #1 ag[3:6,0:9] b[0:5,0:9] -> out[3:6,0:5]

lane 0 copy 0
  copy a[0:3,0:9] -> ag@1[0:3,0:9]
  notify arrived.0@1 += 1

lane 1 compute 0
  gemm #1 a[0:3,0:9] b[0:5,0:9] -> out[3:6,0:5]
  wait arrived.0 >= 1
  gemm #0 ag[0:3,0:9] b[0:5,0:9] -> out[0:3,0:5]

lane 1 copy 0
  copy a[0:3,0:9] -> ag@0[3:6,0:9]
  notify arrived.0@0 += 1
end
)";
}

std::string all_reduce_two_shot() {
  return R"(stretto-plan 2
operator gemm-ar m=6 n=4 k=8 ranks=2 dtype=bf16
sms 2
buffer a bf16 6x4 input
buffer b bf16 4x4 input
buffer slots bf16 6x4 symmetric copies=2
buffer out bf16 6x4 output
signals arrived 1 copies=2
signals summed 1

lane 0 compute 0
  gemm #0 a[3:6,0:4] b[0:4,0:4] -> slots@1[0:3,0:4]
  notify arrived.0@1 += 1
  gemm #1 a[0:3,0:4] b[0:4,0:4] -> slots[0:3,0:4]
  notify arrived.0@0 += 1

lane 0 comm 0
  wait arrived.0 >= 2
  reduce #2 slots[0:3,0:4] slots[3:6,0:4] -> out[0:3,0:4] out@1[0:3,0:4]
  notify summed.0@1 += 1
  wait summed.0 >= 1
  deliver out[3:6,0:4]

lane 1 compute 0
  gemm #0 a[0:3,0:4] b[0:4,0:4] -> slots@0[3:6,0:4]
  notify arrived.0@0 += 1
  gemm #1 a[3:6,0:4] b[0:4,0:4] -> slots[3:6,0:4]
  notify arrived.0@1 += 1

lane 1 comm 0
  wait arrived.0 >= 2
  reduce #3 slots[0:3,0:4] slots[3:6,0:4] -> out[3:6,0:4] out@0[3:6,0:4]
  notify summed.0@0 += 1
  wait summed.0 >= 1
  deliver out[0:3,0:4]
end
)";
}

std::string reduce_scatter_by_nccl() {
  std::string text = R"(stretto-plan 2
operator gemm-rs m=6 n=40 k=24 ranks=3 dtype=bf16
sms 2
buffer a bf16 6x8 input
buffer b bf16 40x8 input
buffer part bf16 6x40 local
buffer out bf16 2x40 output sharded=6
signals computed 1
)";
  for (const char* rank : {"0", "1", "2"}) {
    std::string lanes = R"(
lane R compute 0
  gemm #0 a[0:3,0:8] b[0:40,0:8] -> part[0:3,0:40]
  boundary 0
  notify computed.0@R += 1

lane R compute 1
  gemm #1 a[3:6,0:8] b[0:40,0:8] -> part[3:6,0:40]
  boundary 0

lane R nccl 0
  wait computed.0 >= 1
  collective reduce_scatter 0 part[0:2,0:40] part[2:4,0:40] part[4:6,0:40] -> out[0:2,0:40]
)";
    for (int i = 0; i < 4; ++i) {
      lanes =
          replaced(lanes, i == 3 ? "@R" : "lane R", (i == 3 ? "@" : "lane ") + std::string(rank));
    }
    text += lanes;
  }
  return text + "end\n";
}

std::string all_gather_by_nccl() {
  return R"(stretto-plan 2
operator ag-gemm m=5 n=4 k=6 ranks=2 dtype=fp16
sms 2
buffer a fp16 3x6 input sharded=5
buffer b fp16 2x6 input
buffer ag fp16 5x6 local
buffer out fp16 5x2 output
signals gathered 1

lane 0 compute 0
  wait gathered.0 >= 1
  boundary 0
  gemm #0 ag[0:5,0:6] b[0:2,0:6] -> out[0:5,0:2]

lane 0 nccl 0
  collective all_gather 0 a[0:3,0:6] -> ag[0:3,0:6] ag[3:5,0:6]
  notify gathered.0@0 += 1

lane 1 compute 0
  wait gathered.0 >= 1
  boundary 0
  gemm #0 ag[0:5,0:6] b[0:2,0:6] -> out[0:5,0:2]

lane 1 nccl 0
  collective all_gather 0 a[0:2,0:6] -> ag[0:3,0:6] ag[3:5,0:6]
  notify gathered.0@1 += 1
end
)";
}

std::string all_gather_known_by_another() {
  return R"(stretto-plan 2
operator ag-gemm m=4 n=4 k=8 ranks=2 dtype=fp32
sms 2
buffer a fp32 2x8 input sharded=4
buffer b fp32 2x8 input
buffer ag fp32 4x8 local
buffer other fp32 4x8 local
buffer out fp32 4x2 output
signals met 1

lane 0 compute 0
  wait met.0 >= 1
  gemm #0 ag[0:4,0:8] b[0:2,0:8] -> out[0:4,0:2]

lane 0 nccl 0
  collective all_gather 0 a[0:2,0:8] -> ag[0:2,0:8] ag[2:4,0:8]
  collective all_gather 1 a[0:2,0:8] -> other[0:2,0:8] other[2:4,0:8]

lane 1 compute 0
  wait met.0 >= 1
  gemm #0 ag[0:4,0:8] b[0:2,0:8] -> out[0:4,0:2]

lane 1 nccl 0
  collective all_gather 0 a[0:2,0:8] -> ag[0:2,0:8] ag[2:4,0:8]
  collective all_gather 1 a[0:2,0:8] -> other[0:2,0:8] other[2:4,0:8]
  notify met.0@0 += 1
  notify met.0@1 += 1
end
)";
}

std::string all_reduce_by_nccl() {
  return R"(stretto-plan 2
operator gemm-ar m=3 n=4 k=8 ranks=2 dtype=fp32
sms 2
buffer a fp32 3x4 input
buffer b fp32 4x4 input
buffer part fp32 3x4 local
buffer out fp32 3x4 output
signals computed 1
signals summed 1

lane 0 compute 0
  gemm #0 a[0:3,0:4] b[0:4,0:4] -> part[0:3,0:4]
  notify computed.0@0 += 1

lane 0 comm 0
  wait summed.0 >= 1
  copy part[0:3,0:4] -> out[0:3,0:4]

lane 0 nccl 0
  wait computed.0 >= 1
  collective all_reduce 0 part[0:3,0:4] -> part[0:3,0:4]
  notify summed.0@0 += 1

lane 1 compute 0
  gemm #0 a[0:3,0:4] b[0:4,0:4] -> part[0:3,0:4]
  notify computed.0@1 += 1

lane 1 comm 0
  wait summed.0 >= 1
  copy part[0:3,0:4] -> out[0:3,0:4]

lane 1 nccl 0
  wait computed.0 >= 1
  collective all_reduce 0 part[0:3,0:4] -> part[0:3,0:4]
  notify summed.0@1 += 1
end
)";
}

std::string replaced(std::string text, std::string_view what, std::string_view with, int nth) {
  size_t at = text.find(what);
  for (; nth > 0 && at != std::string::npos; --nth) at = text.find(what, at + what.size());
  if (at == std::string::npos) throw std::logic_error("no such text: " + std::string(what));
  return text.replace(at, what.size(), with);
}

Plan plan_of(std::string_view text) { return parse_plan(text, "test"); }

}  // namespace stretto::emu
