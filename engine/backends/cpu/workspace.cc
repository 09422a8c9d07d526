#include "engine/backends/cpu/workspace.h"

#include <sys/mman.h>

#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>

namespace upscaled::cpu {
namespace {

constexpr size_t kCacheLineBytes = 64;
constexpr size_t kHugePageBytes = size_t{2} << 20;

size_t AlignmentFor(size_t floats) {
  return floats * sizeof(float) >= kHugePageBytes ? kHugePageBytes : kCacheLineBytes;
}

}  // namespace

size_t HugeBuffer::BytesFor(size_t floats) {
  const size_t alignment = AlignmentFor(floats);
  return (floats * sizeof(float) + alignment - 1) / alignment * alignment;
}

HugeBuffer::HugeBuffer(size_t floats) : size_(floats) {
  if (floats == 0) return;
  const size_t alignment = AlignmentFor(floats), rounded_bytes = BytesFor(floats);
  void* memory = std::aligned_alloc(alignment, rounded_bytes);
  if (memory == nullptr) throw std::bad_alloc();
#ifdef MADV_HUGEPAGE
  // A hint: without it everything works on small pages.
  if (alignment == kHugePageBytes) madvise(memory, rounded_bytes, MADV_HUGEPAGE);
#endif
  data_.reset(static_cast<float*>(memory));
}

HugeBuffer HugeBuffer::Poisoned() {
  HugeBuffer buffer;
  buffer.poisons_ = true;
  return buffer;
}

void HugeBuffer::Reserve(size_t floats) {
  if (floats > size_) {
    data_.reset();  // frees the old storage first: never both at once
    size_ = 0;
    HugeBuffer larger(floats);
    data_ = std::move(larger.data_);
    size_ = floats;
  }
  if (poisons_) Poison();
}

void HugeBuffer::Poison() {
  constexpr int kNan = 0xff, kSmall = 0x40;  // of floats 3.0, of halves 2.1
  poisoned_by_nan_ = !poisoned_by_nan_;
  if (size_ > 0) std::memset(data_.get(), poisoned_by_nan_ ? kNan : kSmall, bytes());
}

bool HugeBuffer::Spare() {
#ifdef MADV_FREE
  return bytes() >= kHugePageBytes &&
         madvise(data_.get(), bytes() / kHugePageBytes * kHugePageBytes, MADV_FREE) == 0;
#else
  return false;
#endif
}

void HugeBuffer::Free::operator()(float* p) const { std::free(p); }

}  // namespace upscaled::cpu
