// Calls that come again, of objects that stand for another language's.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "stretto/c_repeats.h"

namespace stretto {
namespace {

using testing::ElementsAre, testing::HasSubstr, testing::IsEmpty;

// DLPack's.
struct DlTensor {
  void* data;
  int32_t device_type, device_id, num_dims;
  uint8_t code, bits;
  uint16_t lanes;
  int64_t* shape;
  int64_t* strides;
  uint64_t byte_offset;
};

// A tensor, or a list.
struct Object {
  int type = 0, device = 0;
  uint8_t bits = 16;
  bool has_view = true;
  uint64_t address = 0;
  std::vector<int64_t> shape, strides;
  std::vector<Object*> items;

  Object(uint64_t at, std::vector<int64_t> sizes) : address(at), shape(std::move(sizes)) {
    int64_t step = 1;
    for (size_t i = shape.size(); i-- > 0; step *= shape[i]) strides.insert(strides.begin(), step);
  }
  explicit Object(std::vector<Object*> all) : items(std::move(all)) {}
};

// What a language would keep count of.
struct Language {
  std::array<int, 3> types = {};
  int usage_error = 0, system_fault = 0, none = 0;
  std::map<void*, int> kept;  // but 0
  std::vector<std::unique_ptr<Object>> made;
  bool is_locked = true, makes_nothing = false;
  int cleared = 0, status = STRETTO_GOOD;
  std::vector<std::string> ran, failed;
  std::function<void()> meanwhile = [] {};  // in a run, and in what makes an output

  void keep(void* object, int by) {
    if ((kept[object] += by) == 0) kept.erase(object);
  }
  Object* make(Object object) {
    made.push_back(std::make_unique<Object>(std::move(object)));
    keep(made.back().get(), 1);
    return made.back().get();
  }
};
Language* language = nullptr;

int view(void* object, void* to) {
  auto& of = *static_cast<Object*>(object);
  if (!of.has_view) return -1;
  DlTensor& tensor = *static_cast<DlTensor*>(to);
  tensor = {reinterpret_cast<void*>(of.address),
            2,
            of.device,
            static_cast<int32_t>(of.shape.size()),
            4,
            of.bits,
            1,
            of.shape.data(),
            of.strides.data(),
            0};
  return 0;
}

stretto_objects objects_of(Language& of) {
  stretto_objects all = {};
  all.size = sizeof all;
  all.view = view;
  all.clear = [] { ++language->cleared; };
  all.length = [](void* list) { return std::ssize(static_cast<Object*>(list)->items); };
  all.item = [](void* list, ptrdiff_t index) -> void* {
    return static_cast<Object*>(list)->items[static_cast<size_t>(index)];
  };
  all.list = [](ptrdiff_t length) -> void* {
    return language->make(Object(std::vector<Object*>(static_cast<size_t>(length))));
  };
  all.put = [](void* list, ptrdiff_t index, void* object) {
    language->keep(object, -1);  // the list goes with it
    static_cast<Object*>(list)->items[static_cast<size_t>(index)] = static_cast<Object*>(object);
    return 0;
  };
  all.type = [](void* object) -> void* {
    void* type = &language->types[static_cast<size_t>(static_cast<Object*>(object)->type)];
    language->keep(type, 1);
    return type;
  };
  all.call = [](void*, void* arguments, void* named) -> void* {
    EXPECT_EQ(named, nullptr);
    if (language->makes_nothing) return nullptr;
    language->meanwhile();
    return language->make(*static_cast<Object*>(arguments)->items[0]);
  };
  all.keep = [](void* object) { language->keep(object, 1); };
  all.drop = [](void* object) { language->keep(object, -1); };
  all.fail = [](void* error, const char*) {
    language->failed.emplace_back(error == &language->usage_error ? "usage" : "fault");
  };
  all.unlock = []() -> void* {
    language->is_locked = false;
    return language;
  };
  all.lock = [](void* unlocked) { static_cast<Language*>(unlocked)->is_locked = true; };
  all.types[0] = &of.types[0];
  all.types[1] = &of.types[1];
  all.none = &of.none;
  all.usage_error = &of.usage_error;
  all.system_fault = &of.system_fault;
  return all;
}

int run(stretto_operation*, int64_t rows, const stretto_call_tensor* tensors, size_t count, void*) {
  EXPECT_FALSE(language->is_locked);
  language->meanwhile();
  std::string said = std::to_string(rows);
  for (size_t i = 0; i < count; ++i) {
    said += std::string(" ") + tensors[i].name + "@" + std::to_string(tensors[i].address);
  }
  language->ran.push_back(said);
  return language->status;
}

// x, two weights of which one is behind the other, and what is added; then a result.
class Repeats : public testing::Test {
 protected:
  void SetUp() override {
    language = &language_;
    objects_ = objects_of(language_);
    ASSERT_EQ(stretto_repeats_make(&objects_, &repeats_), STRETTO_GOOD) << stretto_last_error();
  }
  void TearDown() override {
    EXPECT_EQ(stretto_repeats_close(repeats_), STRETTO_GOOD);
    EXPECT_THAT(language_.kept, IsEmpty());
  }

  int add(int64_t rows = 7) {
    const stretto_repeat made = {sizeof made, run,    nullptr,    rows,
                                 tensors_,    3,      &inputs_,   places_.data(),
                                 &outputs_,   &make_, &arguments_};
    return stretto_repeats_add(repeats_, &made);
  }
  // Where the result is; 0: the call cannot come again, or failed.
  uint64_t again(Object* outputs = nullptr) {
    void* given = outputs == nullptr ? static_cast<void*>(&language_.none) : outputs;
    void* result = stretto_repeats_call(repeats_, &inputs_, given, nullptr);
    EXPECT_TRUE(language_.is_locked);
    if (result == nullptr) return 0;
    language_.keep(result, -1);
    return result == &language_.none ? 0 : static_cast<Object*>(result)->items[0]->address;
  }

  Language language_;
  stretto_objects objects_ = {};
  stretto_call_tensor tensors_[3] = {{sizeof *tensors_, "a", 0, 0, 1, 8},
                                     {sizeof *tensors_, "b", 0, 0, 2, 8},
                                     {sizeof *tensors_, "out", 0, 0, 3, 8}};
  Object x_{0x1000, {4, 8}}, w_{0x2000, {4, 8}}, behind_{0x2040, {2, 8}}, added_{0x3002, {8}};
  Object out_{0x4000, {4, 8}}, like_{0x7000, {4, 8}};
  Object inputs_{{&x_, &w_, &behind_, &added_}}, outputs_{{&out_}};
  Object make_{{}}, argument_{{&like_}}, arguments_{{&argument_}};
  std::vector<int32_t> places_ = {0, 1, STRETTO_BEHIND, STRETTO_ADDED};
  stretto_repeats* repeats_ = nullptr;
};

TEST_F(Repeats, RunWithTheAddressesOfTheObjects) {
  ASSERT_EQ(add(), STRETTO_GOOD) << stretto_last_error();
  tensors_[0].name = "forgotten since";
  EXPECT_EQ(again(), 0x7000U);  // a new one
  x_.address = 0x5000, x_.type = 1, out_.address = 0x6000;
  EXPECT_EQ(stretto_repeats_takes(repeats_, &inputs_), 1);
  EXPECT_EQ(again(&outputs_), 0x6000U);
  EXPECT_THAT(language_.ran,
              ElementsAre("7 a@4096 b@8192 out@28672", "7 a@20480 b@8192 out@24576"));
}

TEST_F(Repeats, AreFoundByTheirTensors) {
  tensors_[0].name = "first";
  ASSERT_EQ(add(1), STRETTO_GOOD);
  x_.shape = {2, 16}, x_.strides = {16, 1};
  ASSERT_EQ(add(2), STRETTO_GOOD);
  EXPECT_NE(again(), 0U);
  x_.shape = {4, 8}, x_.strides = {8, 1};
  EXPECT_NE(again(), 0U);
  ASSERT_EQ(add(3), STRETTO_GOOD);  // takes the first's place
  EXPECT_NE(again(), 0U);
  EXPECT_THAT(language_.ran,
              ElementsAre(HasSubstr("2 first"), HasSubstr("1 first"), HasSubstr("3 first")));
}

TEST_F(Repeats, LeaveObjectsThatAreOtherwise) {
  ASSERT_EQ(add(), STRETTO_GOOD);
  const auto otherwise = [&](auto& what, auto other, bool is_output = false) {
    const auto before = what;
    what = other;
    EXPECT_EQ(stretto_repeats_takes(repeats_, &inputs_), is_output ? 1 : 0);
    EXPECT_EQ(again(&outputs_), 0U);
    what = before;
  };
  const std::vector<Object*> fewer = {&x_, &w_, &behind_}, none;
  otherwise(x_.type, 2);
  otherwise(x_.has_view, false);
  otherwise(x_.device, 1);
  otherwise(w_.bits, uint8_t{32});
  otherwise(w_.shape, std::vector<int64_t>{8, 4});
  otherwise(w_.strides, std::vector<int64_t>{16, 1});
  otherwise(w_.address, uint64_t{0x2008});
  otherwise(behind_.address, uint64_t{0x2050});
  otherwise(inputs_.items, fewer);
  otherwise(inputs_.items, std::vector<Object*>(40, &x_));
  otherwise(outputs_.items, none, true);
  otherwise(out_.device, 1, true);
  otherwise(out_.address, uint64_t{0x4008}, true);
  for (const uint64_t overlapping : {0x1030, 0x0fd0, 0x2050, 0x3000}) {
    otherwise(out_.address, overlapping, true);
  }
  EXPECT_EQ(language_.cleared, 2);  // of views that failed
  EXPECT_THAT(language_.ran, IsEmpty());
  EXPECT_EQ(again(&outputs_), 0x4000U);
}

TEST_F(Repeats, DimensionsOfOneElementHaveAnyStride) {
  x_.shape = {1, 32}, x_.strides = {5, 1};
  ASSERT_EQ(add(), STRETTO_GOOD);
  EXPECT_NE(again(), 0U);
}

TEST_F(Repeats, FailuresAreTheLanguages) {
  ASSERT_EQ(add(), STRETTO_GOOD);
  for (const int status : {STRETTO_SYSTEM_FAULT, STRETTO_BAD_USAGE}) {
    language_.status = status;
    EXPECT_EQ(again(), 0U);
  }
  EXPECT_THAT(language_.failed, ElementsAre("fault", "usage"));
  language_.makes_nothing = true;  // and has said why
  EXPECT_EQ(again(), 0U);
  EXPECT_EQ(language_.ran.size(), 2U);
}

// What another thread adds in the place of a call that is being made is that of calls to come.
TEST_F(Repeats, StayWhileTheyAreCalled) {
  ASSERT_EQ(add(1), STRETTO_GOOD);
  int64_t rows = 1;
  language_.meanwhile = [&, is_first = true]() mutable {
    if (!std::exchange(is_first, false)) return;
    std::thread([&] { EXPECT_EQ(add(++rows), STRETTO_GOOD); }).join();
    // The call's, and that of the one in its place.
    EXPECT_EQ(language_.kept[&make_], 2);
    EXPECT_EQ(language_.kept[&arguments_], 2);
  };
  const auto once = language_.meanwhile;
  EXPECT_EQ(again(&outputs_), 0x4000U);  // one adds while it runs
  EXPECT_EQ(language_.kept[&make_], 1);
  EXPECT_EQ(language_.kept[&arguments_], 1);
  language_.meanwhile = once;
  EXPECT_EQ(again(), 0x7000U);  // one adds while the output is made
  EXPECT_THAT(language_.ran, ElementsAre("1 a@4096 b@8192 out@16384", "2 a@4096 b@8192 out@28672"));
}

std::mutex lock_of_threads;
std::atomic<int> runs_of_threads = 0;

TEST_F(Repeats, TakeThreadsThatAddAndCall) {
  ASSERT_EQ(stretto_repeats_close(repeats_), STRETTO_GOOD);
  objects_.unlock = []() -> void* {
    lock_of_threads.unlock();
    return &lock_of_threads;
  };
  objects_.lock = [](void*) { lock_of_threads.lock(); };
  ASSERT_EQ(stretto_repeats_make(&objects_, &repeats_), STRETTO_GOOD);
  const auto run_of_threads = [](stretto_operation*, int64_t, const stretto_call_tensor* tensors,
                                 size_t count, void*) -> int {
    std::this_thread::yield();
    runs_of_threads += count == 3 && tensors[2].name == std::string("out") ? 1 : 0;
    return STRETTO_GOOD;
  };
  const auto each = [&](const auto& work) {
    for (int i = 0; i < 500; ++i) {
      const std::lock_guard guard(lock_of_threads);
      work(i);
    }
  };
  const auto adds = [&](int64_t i) {
    const stretto_repeat made = {sizeof made, +run_of_threads, nullptr,   i,      tensors_,   3,
                                 &inputs_,    places_.data(),  &outputs_, &make_, &arguments_};
    EXPECT_EQ(stretto_repeats_add(repeats_, &made), STRETTO_GOOD);
  };
  adds(0);
  const auto calls = [&](int) {
    void* const made = stretto_repeats_call(repeats_, &inputs_, &outputs_, nullptr);
    EXPECT_EQ(made, &outputs_);
    language_.keep(made, -1);
  };
  std::thread threads[] = {std::thread(each, adds), std::thread(each, calls),
                           std::thread(each, calls)};
  for (std::thread& one : threads) one.join();
  EXPECT_EQ(runs_of_threads, 1000);
}

TEST_F(Repeats, MistakesAreOneLine) {
  const auto says = [&](const char* what) {
    EXPECT_EQ(add(), STRETTO_BAD_USAGE);
    EXPECT_THAT(stretto_last_error(), HasSubstr(what));
  };
  places_[0] = 2;
  says("input 0 has place 2; 0 to 1");
  places_[0] = STRETTO_BEHIND;
  says("input 0 has place -1");
  places_[0] = 0;
  x_.strides[0] = 9;
  says("inputs: number 0 is not contiguous");
  x_.strides[0] = 8;
  x_.type = 2;
  says("inputs: what is no tensor of the types given");
  x_.type = 0;
  arguments_.items.clear();
  says("repeat.arguments has another length");
  arguments_.items = {&argument_};
  tensors_[1].name = nullptr;
  says("repeat.tensors.name is NULL");
  EXPECT_EQ(again(), 0U);
  EXPECT_EQ(stretto_repeats_add(nullptr, nullptr), STRETTO_BAD_USAGE);
  EXPECT_THAT(stretto_last_error(), HasSubstr("repeats is NULL"));
  stretto_repeats* none = nullptr;
  EXPECT_EQ(stretto_repeats_make(nullptr, &none), STRETTO_BAD_USAGE);
  EXPECT_THAT(stretto_last_error(), HasSubstr("objects is NULL"));
}

}  // namespace
}  // namespace stretto
