#include "engine/model/architectures/moesr.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/model/architectures/dysample.h"
#include "engine/model/architectures/gated.h"
#include "engine/model/architectures/planes.h"
#include "engine/model/architectures/shuffle_scale.h"
#include "engine/model/limits.h"
#include "engine/model/quote.h"

namespace upscaled {
namespace {

using Options = NetworkBuilder::ConvOptions;

constexpr float kGatedEpsilon = 1e-6f;
constexpr float kDownUpSlope = 0.1f, kShuffleSlope = 0.01f, kNearestSlope = 0.2f;

std::string MoGroup(int group) { return absl::StrCat("blocks.", group, "."); }
std::string MoBlock(int group, int block) {
  return absl::StrCat(MoGroup(group), "blocks.", block, ".");
}
std::string MoEnd(int index) { return absl::StrCat("upscale.", index); }

// Null if there is no such convolution.
const TensorInfo* EndKernel(const TensorFile& file, int index) {
  const TensorInfo* weight = file.Find(MoEnd(index) + ".weight");
  return weight != nullptr && weight->shape.size() == 4 ? weight : nullptr;
}

int64_t MoPlanes(const TensorFile& file) {
  const TensorInfo* first = file.Find("in_to_dim.weight");
  return first == nullptr || first->shape.size() != 4 ? 0 : first->shape[1];
}

// The places of the ending's convolutions among its modules tell its kind.
enum class MoEnding {
  kDirect,   // one, with its pixel shuffle
  kShuffle,  // pixel shuffles between two: 0, 2, 4 and so on
  kNearest,  // doublings: 0, 3 and so on, and one right before the last
  kSample,   // DySample
};

MoEnding MoEndingOf(const TensorFile& file) {
  if (HasDySample(file, MoEnd(0))) return MoEnding::kSample;
  if (EndKernel(file, 2) != nullptr) return MoEnding::kShuffle;
  return EndKernel(file, 3) != nullptr ? MoEnding::kNearest : MoEnding::kDirect;
}

// The ending's factors, one after the other.
absl::StatusOr<std::vector<int>> MoFactors(const TensorFile& file) {
  std::vector<int> factors;
  switch (MoEndingOf(file)) {
    case MoEnding::kSample: {
      ASSIGN_OR_RETURN(factors.emplace_back(), DySampleScale(file, MoEnd(0)));
      break;
    }
    case MoEnding::kDirect: {
      const TensorInfo* weight = EndKernel(file, 0);
      ASSIGN_OR_RETURN(factors.emplace_back(),
                       ScaleOfShuffle(weight == nullptr ? 0 : weight->shape[0], MoPlanes(file)));
      break;
    }
    case MoEnding::kShuffle:
      for (int i = 2; EndKernel(file, i + 2) != nullptr; i += 2) {
        const std::vector<int64_t>& shape = EndKernel(file, i)->shape;
        ASSIGN_OR_RETURN(factors.emplace_back(), ScaleOfShuffle(shape[0], shape[1]));
      }
      break;
    case MoEnding::kNearest:
      for (int i = 3; EndKernel(file, i) != nullptr; i += 3) factors.push_back(2);
      if (factors.size() > 1) break;
      return absl::UnimplementedError(
          "ends with one nearest resize, by 2 or by 3: no tensor of floats tells which");
  }
  return factors;
}

// A row or a column of taps in the middle of a square kernel of zeros.
int AddBand(NetworkBuilder& builder, int input, const std::string& name, bool row) {
  const int64_t taps = builder.Shape(name + ".weight", 4)[row ? 3 : 2];
  if (builder.ok() && (taps < 1 || taps > kMaxKernelPx || taps % 2 == 0)) {
    builder.Fail(absl::InvalidArgumentError(absl::StrCat(
        Quote(name), " has ", taps, " taps, must have an odd number in 1..", kMaxKernelPx)));
  }
  if (!builder.ok()) return input;
  const int channels = builder.Channels(input), side_px = static_cast<int>(taps);
  const std::vector<float> weights =
      builder.Read(name + ".weight", {channels, 1, row ? 1 : taps, row ? taps : 1});
  Layer conv{.name = name,
             .kernel_px = side_px,
             .groups = channels,
             .padding_px = side_px / 2,
             .bias = builder.Read(name + ".bias", {channels})};
  if (!builder.ok()) return input;
  conv.weights.assign(weights.size() * side_px, 0.0f);
  for (size_t i = 0; i < weights.size(); ++i) {
    const size_t kernel = i / side_px * side_px * side_px, tap = i % side_px;
    const size_t place = row ? side_px / 2 * side_px + tap : tap * side_px + side_px / 2;
    conv.weights[kernel + place] = weights[i];
  }
  return builder.GroupedConv(input, std::move(conv));
}

// The last three shares of the channels are convolved, each in its own way (Yu et al.,
// "InceptionNeXt", 2024).
int AddInception(NetworkBuilder& builder, int x, const std::string& name) {
  const auto share = static_cast<int>(
      std::clamp<int64_t>(builder.Shape(name + ".dwconv_hw.weight", 4)[0], 0, kMaxChannels));
  if (!builder.ok()) return x;
  const int kept = builder.Channels(x) - 3 * share;
  if (share < 1 || kept < 0) {
    builder.Fail(absl::InvalidArgumentError(absl::StrCat(
        Quote(name), " convolves three times ", share, " of ", builder.Channels(x), " channels")));
    return x;
  }
  std::vector<int> parts;
  if (kept > 0) parts.push_back(builder.Slice(x, 0, kept));
  const auto part = [&](int index) { return builder.Slice(x, kept + index * share, share); };
  parts.push_back(builder.Conv(part(0), name + ".dwconv_hw", {.groups = share}));
  parts.push_back(AddBand(builder, part(1), name + ".dwconv_w", /*row=*/true));
  parts.push_back(AddBand(builder, part(2), name + ".dwconv_h", /*row=*/false));
  return builder.Concat(std::move(parts));
}

// fc1's channels: a gate, some unchanged ones, and as many convolved ones as the input has.
int AddMoBlock(NetworkBuilder& builder, int x, const std::string& block) {
  const int y =
      builder.Conv(builder.LayerNorm(x, block + "norm", kGatedEpsilon), block + "fc1", {});
  if (!builder.ok()) return x;
  const int channels = builder.Channels(x);
  if (!CheckGate(builder, y, channels, block + "fc1")) return x;
  const int values = AddGate(builder, y, channels, [&](int mixed) {
    return AddInception(builder, mixed, block + "conv");
  });
  const int z = builder.Conv(values, block + "fc2", {.activation = Activation::kMish});
  const std::vector<float> factors = builder.Read(block + "gamma", {1, channels, 1, 1});
  return builder.ok() ? builder.Add(builder.Affine(z, factors, {0.0f}), x) : x;
}

// Blocks, and then three more among planes of half the size.
int AddMoGroup(NetworkBuilder& builder, int x, int group) {
  for (int i = 0; builder.ok() && builder.file().Has(MoBlock(group, i) + "gamma"); ++i) {
    x = AddMoBlock(builder, x, MoBlock(group, i));
  }
  const std::string name = MoGroup(group) + "msg.";
  int y = builder.PixelUnshuffle(builder.Conv(x, name + "down.0", {}), 2);
  y = builder.Activate(y, Activation::kLeakyRelu, kDownUpSlope);
  for (int i = 0; builder.ok() && builder.file().Has(absl::StrCat(name, "gated.", i, ".gamma"));
       ++i) {
    y = AddMoBlock(builder, y, absl::StrCat(name, "gated.", i, "."));
  }
  y = builder.PixelShuffle(builder.Conv(y, name + "up.0", {}), 2);
  return builder.Add(builder.Activate(y, Activation::kLeakyRelu, kDownUpSlope), x);
}

int AddMoEnding(NetworkBuilder& builder, int x, const std::vector<int>& factors) {
  constexpr Options kBefore = {.activation = Activation::kLeakyRelu, .slope = kShuffleSlope};
  constexpr Options kAround = {.activation = Activation::kLeakyRelu, .slope = kNearestSlope};
  const int count = static_cast<int>(factors.size());
  switch (MoEndingOf(builder.file())) {
    case MoEnding::kSample:
      return AddDySample(builder, x, MoEnd(0));
    case MoEnding::kDirect:
      return builder.PixelShuffle(builder.Conv(x, MoEnd(0), {}), factors[0]);
    case MoEnding::kShuffle:
      x = builder.Conv(x, MoEnd(0), kBefore);
      for (int i = 0; i < count; ++i) {
        x = builder.PixelShuffle(builder.Conv(x, MoEnd(2 + 2 * i), {}), factors[i]);
      }
      return builder.Conv(x, MoEnd(2 + 2 * count), {});
    case MoEnding::kNearest:
      // A curve of repeated pixels is repeated values of the curve.
      for (int i = 0; i < count; ++i) {
        x = builder.Nearest(builder.Conv(x, MoEnd(3 * i), kAround), factors[i]);
      }
      x = builder.Conv(x, MoEnd(3 * count), kAround);
      return builder.Conv(x, MoEnd(3 * count + 2), {});
  }
  return x;
}

}  // namespace

bool RecogniseMoEsr(const TensorFile& file) {
  return file.Has("in_to_dim.weight") && file.Has(MoBlock(0, 0) + "conv.dwconv_hw.weight") &&
         file.Has(MoGroup(0) + "msg.down.0.weight");
}

absl::StatusOr<int> MoEsrScale(const TensorFile& file) {
  ASSIGN_OR_RETURN(const std::vector<int> factors, MoFactors(file));
  return ScaleOfFactors(factors);
}

void BuildMoEsr(NetworkBuilder& builder) {
  builder.Ignore("upscale.MetaUpsample");  // the numbers that the shapes give, too
  const absl::StatusOr<std::vector<int>> factors = MoFactors(builder.file());
  if (!factors.ok()) return builder.Fail(factors.status());
  const absl::StatusOr<int> scale = ScaleOfFactors(*factors);
  if (!scale.ok()) return builder.Fail(scale.status());
  const int64_t planes = MoPlanes(builder.file());
  if (const absl::Status status = CheckPlanes(planes); !status.ok()) return builder.Fail(status);
  const int image = builder.Pad(builder.Input(), 0, PadMode::kReflect, /*align_px=*/2);
  const int first = builder.Conv(PlanesOf(builder, image, planes), "in_to_dim", {});
  int x = first;
  for (int i = 0; builder.ok() && builder.file().Has(MoGroup(i) + "msg.down.0.weight"); ++i) {
    x = AddMoGroup(builder, x, i);
  }
  x = AddMoEnding(builder, builder.Add(x, first), *factors);
  if (builder.ok()) RgbOf(builder, image, x, planes, *scale);
}

}  // namespace upscaled
