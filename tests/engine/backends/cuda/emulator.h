// Runs kernels of engine/backends/cuda/kernels on the CPU: every thread of a block as a fiber, the
// calls of device.h as the PTX ISA defines them. It draws at random all that the device leaves
// open: in which order threads run, and when asynchronous copies and products happen between their
// start and the wait for them (mma.sync when its warp meets next); so races and missing waits give
// wrong values. Shared memory starts as NaN.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <vector>

namespace upscaled::test {

struct EmulatedGrid {
  int x = 1, y = 1, z = 1;  // blocks
  int threads = 1;          // per block
  size_t shared_bytes = 0;
};

// A call of device.h without effect, as if a kernel lacked it: its tests must notice.
struct PlantedFault {
  enum Call {
    kNone,
    kSyncThreads,
    kSyncWarp,
    kSyncWarps,
    kFenceBarriers,
    kFenceForProducts,
    kArrive,
    kWaitForPhase,
    kWaitCopies,
    kExpectBytes,  // half of the bytes are expected
    kWaitProducts,
    kWaitStoresRead,
    kWaitStores
  } call = kNone;
  // The addresses of the call's barriers; for kWaitProducts, the number of products left pending.
  uint32_t first = 0;
  uint32_t end = std::numeric_limits<uint32_t>::max();
  int only = -1;  // of these calls, counted from 0; -1: all
};
// The fault of all kernels from now on.
void Plant(const PlantedFault& fault);

// The failures that the emulator finds while `run` runs with the fault.
std::vector<std::string> FailuresWith(const PlantedFault& fault, const std::function<void()>& run);
// Whether the fault makes `is_right` false, or the emulator find a failure.
bool IsNoticed(const PlantedFault& fault, const std::function<bool()>& is_right);

// Runs `kernel` for each thread of each block, one block after the other. Where all threads wait, a
// random one with Patience gives up, or its group does. Failures of the test: threads waiting for
// each other, or wgmma reading values without a fence before.
void RunEmulated(const EmulatedGrid& grid, const std::function<void()>& kernel,
                 std::mt19937& random);

}  // namespace upscaled::test
