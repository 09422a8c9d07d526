#include "engine/model/architectures/mosr.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/model/architectures/dysample.h"
#include "engine/model/architectures/gated.h"
#include "engine/model/architectures/shuffle_scale.h"

namespace upscaled {
namespace {

constexpr NetworkBuilder::ConvOptions kMish = {.activation = Activation::kMish};
constexpr float kEpsilon = 1e-6f;
constexpr char kPlainEnd[] = "upsampler.0", kMeanEnd[] = "upsampler.in_to_k",
               kMosrSampleEnd[] = "upsampler";
constexpr int kResults = 8;  // that the other end takes the mean of

std::string GatedBlock(int index) { return absl::StrCat("gblocks.", index); }

bool IsGatedBlock(const TensorFile& file, int index) {
  return file.Has(GatedBlock(index) + ".norm.weight");
}

bool HasPlainEnd(const TensorFile& file) { return file.Has(absl::StrCat(kPlainEnd, ".weight")); }

int64_t ResultsAtTheEnd(const TensorFile& file) {
  const bool plain = HasPlainEnd(file);
  const TensorInfo* end = file.Find(absl::StrCat(plain ? kPlainEnd : kMeanEnd, ".weight"));
  if (end == nullptr || end->shape.empty()) return 0;
  return plain ? end->shape[0] : end->shape[0] / kResults;
}

// x - 1/2
int Centre(NetworkBuilder& builder, int x) { return builder.Affine(x, {1.0f}, {-0.5f}); }

// fc1's channels: a gate, the unchanged ones, the ones convolved one by one.
int AddGatedBlock(NetworkBuilder& builder, int x, const std::string& name) {
  const int normal = builder.LayerNorm(x, name + ".norm", kEpsilon);
  const int y = builder.Conv(normal, name + ".fc1", {});
  const auto convolved = static_cast<int>(builder.Shape(name + ".conv.weight", 4)[0]);
  if (!builder.ok()) return 0;
  const int values = AddGate(builder, y, convolved, [&](int mixed) {
    return builder.Conv(mixed, name + ".conv", {.groups = convolved});
  });
  const int result = builder.Conv(values, name + ".fc2", kMish);
  return builder.Add(result, Centre(builder, x));
}

// The mean of eight results comes from the mean of their weights.
int AddMeanEnd(NetworkBuilder& builder, int x, int results) {
  const std::string name = kMeanEnd;
  const std::vector<int64_t> shape = builder.Shape(name + ".weight", 4);
  const std::vector<float> weights = builder.Read(
      name + ".weight", {int64_t{kResults} * results, builder.Channels(x), shape[2], shape[2]});
  const std::vector<float> bias = builder.Read(name + ".bias", {int64_t{kResults} * results});
  if (!builder.ok()) return 0;
  const auto mean_of = [](const std::vector<float>& values) {
    std::vector<float> means(values.size() / kResults);
    for (size_t i = 0; i < values.size(); ++i) means[i % means.size()] += values[i] / kResults;
    return means;
  };
  const int kernel_px = static_cast<int>(shape[2]);
  return builder.Conv(x, {.name = name,
                          .kernel_px = kernel_px,
                          .padding_px = kernel_px / 2,
                          .weights = mean_of(weights),
                          .bias = mean_of(bias)});
}

}  // namespace

bool RecogniseMosr(const TensorFile& file) {
  return file.Has("gblocks.0.weight") && IsGatedBlock(file, 1) &&
         file.Has("gblocks.1.fc1.weight") && file.Has("shortcut.conv11.weight") &&
         (ResultsAtTheEnd(file) > 0 || HasDySample(file, kMosrSampleEnd));
}

absl::StatusOr<int> MosrScale(const TensorFile& file) {
  if (HasDySample(file, kMosrSampleEnd)) return DySampleScale(file, kMosrSampleEnd);
  return ScaleOfShuffle(ResultsAtTheEnd(file));
}

void BuildMosr(NetworkBuilder& builder) {
  const TensorFile& file = builder.file();
  const absl::StatusOr<int> scale = MosrScale(file);
  if (!scale.ok()) return builder.Fail(scale.status());
  const int image = builder.Input();
  int x = builder.Conv(image, "gblocks.0", {});
  int index = 1;
  for (; IsGatedBlock(file, index) && builder.ok(); ++index)
    x = AddGatedBlock(builder, x, GatedBlock(index));
  // Activations count as well.
  x = builder.Conv(x, GatedBlock(index), kMish);
  x = builder.Conv(x, GatedBlock(index + 2), kMish);
  x = builder.Conv(x, GatedBlock(index + 4), {});
  const int deep =
      builder.Conv(builder.Conv(image, "shortcut.block.0", kMish), "shortcut.block.2", kMish);
  const int shortcut = builder.Add(deep, builder.Conv(image, "shortcut.conv11", {}));
  x = builder.Add(x, Centre(builder, shortcut));
  if (!builder.ok()) return;
  if (HasDySample(file, kMosrSampleEnd)) {
    AddDySample(builder, x, kMosrSampleEnd);
    return;
  }
  const auto results = static_cast<int>(ResultsAtTheEnd(file));
  x = HasPlainEnd(file) ? builder.Conv(x, kPlainEnd, {}) : AddMeanEnd(builder, x, results);
  builder.PixelShuffle(x, *scale);
}

}  // namespace upscaled
