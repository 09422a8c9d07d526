// Proves that a kernel that no device of ours has run is right on the device at hand, and how fast
// it is, through networks of a few layers: a kernel may crash or hang, so run it in a process that
// may end.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/backends/backend.h"
#include "engine/base/geometry.h"

namespace upscaled {

// The layer that the kernel computes.
enum class ProofLayer : uint8_t {
  kBetween,    // a 3x3 convolution between others
  kLast,       // a 3x3 convolution to the result, whose pixels it may shuffle
  kEnlarging,  // a transposed 2x2 convolution with stride 2
  kGated,      // all of these, and a 2x2 convolution, of squeeze-excites' results
  kPooled,     // kBetween, with its result pooled: its sums are compared, too
};

// A network one of whose layers is the kernel's, in precision fast.
struct ProofCase {
  int in_channels = 0, out_channels = 0;
  bool adds = false;  // the result of an earlier layer, of as many channels; kLast: the image
  Size image;
  int tiles = 1;  // equal ones, which make a batch
  // The largest difference of the result. 0, each bit agrees, if the shipped kernels add up sums by
  // the same instruction.
  float tolerance = 0;
  ProofLayer layer = ProofLayer::kBetween;
  int factor = 1;  // kLast: the result's pixels per pixel of the layer, on both axes
  // kGated: next to all other new kernels, which compute both results.
  bool joined = false;
};

// The new kernels of joined cases: all but gates.
std::span<const std::string_view> ListJoinedKernels();

// Sizes with rests in every direction, sizes of images, widths of networks.
std::span<const ProofCase> ListProofCases();

struct ProofResult {
  bool supported = true;  // the kernel computes the layer; else nothing is compared
  bool right = false;     // within the tolerance of what the shipped kernels compute
  double worst = 0;       // the largest difference
  // The layer's time by the kernel and by the shipped ones; 0 in small images.
  double us = 0, plain_us = 0;
};

// Makes the device's backend.
using ProofBackend =
    std::function<absl::StatusOr<std::unique_ptr<Backend>>(const BackendOptions& options)>;

// Runs a case by the kernel of this name, forced, and by the kernels that are shipped. A name that
// ends in "_epilogue" or "_gates" is a part of these, which the backend is told to use. Results are
// not repaired, and values that are not finite are wrong. Errors are the backend's. Calls
// `on_plain`, which may be null, between the shipped kernels' run and its own.
absl::StatusOr<ProofResult> ProveKernel(const ProofBackend& create, std::string_view kernel,
                                        const ProofCase& proof,
                                        const std::function<void()>& on_plain = nullptr);

// "64-64 + skip, 123x77, 2 tiles", "64-3 x2, 123x77", "64-64 up, 123x77"
std::string Describe(const ProofCase& proof);

}  // namespace upscaled
