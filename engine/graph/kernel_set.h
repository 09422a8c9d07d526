// The interface of a backend to the compiler: a list of kernels, each one's supported layers and
// fusions, and the trial of a layer by itself.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/base/geometry.h"
#include "engine/base/string_view.h"
#include "engine/graph/kernel_choice.h"
#include "engine/model/network.h"
#include "engine/model/precision.h"

namespace upscaled {

// Fusable operations of a kernel's pass; activations are part of every layer, and loaders fold
// scales into weights.
enum Fusion : unsigned {
  kFuseNothing = 0,
  kFuseAdd = 1,      // adds another tensor to the activated result
  kFuseCrop = 2,     // with kFuseAdd, or of a kAdd: crops what it adds
  kFuseResize = 4,   // with kFuseAdd: resizes what it adds, cropped or not, to the nearest pixel
  kFuseShuffle = 8,  // shuffles the result of its convolution
  kFuseImage = 16,   // reads the image's samples, resized to the nearest pixel or not; always
  kFuseGate = 32,    // multiplies its input, and what it adds, by a factor per channel of the image
};

// Layers computed together by one kernel.
struct FusedLayers {
  const Layer* main = nullptr;     // which has the weights
  const Layer* shuffle = nullptr;  // if not null: a kPixelShuffle of its result
  bool reads_image = false;        // `main` reads the network's input, or a nearest resize of it
  bool per_image = false;          // the result is values for the whole image: IsPerImage
};

// An entry of a backend's list; the backend's own adds how it is made and launched.
struct KernelInfo {
  std::string_view name;
  unsigned fuses = kFuseNothing;  // Fusion
  // For comparison: chosen only if forced.
  bool baseline = false;
};

// A kernel and one of the ways to launch it.
struct KernelChoice {
  const KernelInfo* info = nullptr;
  size_t config = 0;

  friend bool operator==(const KernelChoice&, const KernelChoice&) = default;
};

// A backend's kernels for one device and precision. Thread safe.
class KernelSet {
 public:
  virtual ~KernelSet() = default;

  virtual std::string_view backend() const = 0;  // "cpu", for messages
  virtual std::string device() const = 0;        // KernelCandidates::device
  virtual Precision precision() const = 0;
  virtual std::vector<const KernelInfo*> List() const = 0;  // best first
  virtual bool Supports(const KernelInfo& kernel, const FusedLayers& layers) const = 0;
  // The kernel's possible fusions with `main`, a supported layer.
  virtual unsigned Fuses(const KernelInfo& kernel, const Layer& /*main*/) const {
    return kernel.fuses;
  }

  virtual size_t ConfigCount(const KernelInfo& /*kernel*/) const { return 1; }
  // Choices known as good on the device come before the others.
  virtual bool IsKnownGood(const KernelChoice& /*choice*/) const { return false; }
  // As tables name it.
  virtual std::string NameOf(const KernelChoice& choice) const {
    return std::string(choice.info->name);
  }

  // Upper bound of the bytes of a layer's packed weights.
  virtual size_t PackedBytesBound(const Layer& layer) const = 0;

  // See KernelCandidates.
  virtual std::unique_ptr<LayerCandidate> Try(const Layer& layer, const KernelChoice& choice,
                                              Size input) const = 0;
  virtual Size TimedOutput(const Layer& /*layer*/) const { return {168, 12}; }
  virtual Size CheckedOutput(const Layer& /*layer*/) const { return {7, 7}; }
};

// The largest number of a layer's choices.
inline constexpr size_t kMaxChoices = 16;

// The choices for `layers`, best first; only `forced` (may be null) if it supports them.
std::vector<KernelChoice> RankKernels(const KernelSet& kernels, const FusedLayers& layers,
                                      const KernelInfo* forced = nullptr);

// The answer of `chooser` (may be null) for a convolution with a choice and without a forced
// kernel, or the first of RankKernels. UNIMPLEMENTED: no kernel supports the layers.
absl::StatusOr<KernelChoice> ChooseKernel(const KernelSet& kernels, const FusedLayers& layers,
                                          const KernelInfo* forced, KernelChooser* chooser);

// An entry of `list`, or null for "". INVALID_ARGUMENT names the existing ones.
template <typename Info>
absl::StatusOr<const Info*> FindForcedKernel(std::string_view backend, std::span<const Info> list,
                                             const std::string& name) {
  if (name.empty()) return nullptr;
  for (const Info& info : list) {
    if (info.name == name) return &info;
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "kernel '", name, "' is not one of the ", ToAbsl(backend),
      " backend's: ", absl::StrJoin(list, ", ", [](std::string* out, const KernelInfo& info) {
        out->append(info.name);
      })));
}

}  // namespace upscaled
