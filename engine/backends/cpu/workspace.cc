#include "engine/backends/cpu/workspace.h"

#include <sys/mman.h>

#include <cstdlib>
#include <new>

namespace upscaled::cpu {
namespace {

constexpr size_t kCacheLineBytes = 64;
constexpr size_t kHugePageBytes = size_t{2} << 20;

}  // namespace

HugeBuffer::HugeBuffer(size_t floats) : size_(floats) {
  if (floats == 0) return;
  const size_t bytes = floats * sizeof(float);
  const size_t alignment = bytes >= kHugePageBytes ? kHugePageBytes : kCacheLineBytes;
  const size_t rounded_bytes = (bytes + alignment - 1) / alignment * alignment;
  void* memory = std::aligned_alloc(alignment, rounded_bytes);
  if (memory == nullptr) throw std::bad_alloc();
#ifdef MADV_HUGEPAGE
  // A hint: without it everything works on small pages.
  if (alignment == kHugePageBytes) madvise(memory, rounded_bytes, MADV_HUGEPAGE);
#endif
  data_.reset(static_cast<float*>(memory));
}

void HugeBuffer::Reserve(size_t floats) {
  if (floats <= size_) return;
  *this = HugeBuffer();  // frees the old storage first: never both at once
  *this = HugeBuffer(floats);
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
