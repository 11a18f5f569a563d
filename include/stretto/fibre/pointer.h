// Checked pointers of the emulator: an address is an allocation, the rank whose copy is meant, and
// an offset; every access goes through the engine that runs the current fibre.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "stretto/device/lang/words.h"

namespace stretto::fibre {

using device::Order;
using device::Scope;
using device::Where;

class Allocation;

struct Address {
  Allocation* allocation = nullptr;
  int32_t rank = 0;    // whose copy; of a null address: the rank that cannot be reached, or -1
  int64_t offset = 0;  // bytes

  friend bool operator==(const Address&, const Address&) = default;
};

// Plain accesses by the running thread.
void read_plain(const Address& address, void* value, size_t num_bytes, Where where);
void write_plain(const Address& address, const void* value, size_t num_bytes, Where where);

// An index that remembers the line on which it was used.
struct Index {
  template <class I, class = std::enable_if_t<std::is_integral_v<I>>>
  Index(I index, Where here = Where::here()) : value(static_cast<int64_t>(index)), where(here) {}
  int64_t value;
  Where where;
};

// What p[i] is: converts to the value (a read), takes a value (a write). It cannot be kept, since
// `auto x = p[i]` would read on each use where the GPU reads once; write `T x = p[i]`.
template <class T>
class Element {
  using Value = std::remove_const_t<T>;

 public:
  Element(const Address& address, Where where) : address_(address), where_(where) {}
  Element(const Element&) = delete;

  operator Value() && { return get(); }
  void operator=(const Value& value) && {
    static_assert(!std::is_const_v<T>, "the pointer is to const");
    put(value);
  }
  void operator=(Element&& other) && { put(other.get()); }
  void operator+=(const Value& value) && { put(static_cast<Value>(get() + value)); }

 private:
  Value get() const {
    Value value;
    read_plain(address_, &value, sizeof value, where_);
    return value;
  }
  void put(const Value& value) const { write_plain(address_, &value, sizeof value, where_); }

  Address address_;
  Where where_;
};

template <class T>
class Pointer {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  using Value = std::remove_const_t<T>;

  Pointer() { address_.rank = -1; }
  Pointer(std::nullptr_t) : Pointer() {}
  explicit Pointer(const Address& address) : address_(address) {}
  template <class U, class = std::enable_if_t<std::is_same_v<const U, T>>>
  Pointer(const Pointer<U>& other) : address_(other.address()) {}

  const Address& address() const { return address_; }
  explicit operator bool() const { return address_.allocation != nullptr; }

  Element<T> operator[](Index index) const { return {plus(index.value).address_, index.where}; }

  template <class I>
  Pointer operator+(I count) const {
    return plus(static_cast<int64_t>(count));
  }
  template <class I>
  Pointer operator-(I count) const {
    return plus(-static_cast<int64_t>(count));
  }
  template <class I>
  Pointer& operator+=(I count) {
    return *this = *this + count;
  }
  friend bool operator==(const Pointer& a, const Pointer& b) { return a.address_ == b.address_; }

 private:
  Pointer plus(int64_t count) const {
    Pointer sum = *this;
    sum.address_.offset += count * static_cast<int64_t>(sizeof(T));
    return sum;
  }

  Address address_;
};

// p[i], for a function that has been told the line of its caller.
template <class T>
Element<T> at(const Pointer<T>& p, int64_t i, Where where) {
  return p[Index(i, where)];
}

// The same bytes as elements of another type (reinterpret_cast on the GPU).
template <class U, class T>
Pointer<U> pointer_cast(const Pointer<T>& pointer) {
  return Pointer<U>(pointer.address());
}

}  // namespace stretto::fibre
