#include "engine/proof/kernel_proof.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <limits>
#include <random>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/backends/layer_profile.h"
#include "engine/base/status_macros.h"
#include "engine/base/string_view.h"
#include "engine/graph/pooling.h"
#include "engine/image/image.h"
#include "engine/proof/proof_network.h"

namespace upscaled {
namespace {

// Layers of at most 32 columns, or of many channels, have mma.sync without the new kernel instead
// of wgmma. It may round sums in another way, and so some halves.
constexpr float kOtherRounding = 2e-3f;

// Layers of narrower images are not timed: their launches hide the kernel, and each takes seconds.
constexpr int kTimedWidth = 480;

// A gate's factors round weights instead of pixels.
constexpr float kOtherFactors = 8e-3f;

constexpr ProofCase kCases[] = {
    {64, 64, false, {123, 77}, 2},
    {64, 64, true, {123, 77}},
    {32, 64, false, {33, 65}, 3},
    {48, 48, false, {123, 77}},
    {128, 128, false, {123, 77}},
    {64, 128, false, {33, 65}, 2},
    {64, 32, false, {123, 77}, 2, kOtherRounding},
    {96, 32, false, {33, 65}, 1, kOtherRounding},
    {160, 32, false, {123, 77}, 1, kOtherRounding},
    {192, 64, false, {33, 65}, 1, kOtherRounding},
    {192, 64, true, {123, 77}, 1, kOtherRounding},
    {256, 64, false, {123, 77}, 1, kOtherRounding},
    {64, 64, false, {1, 1}},
    {64, 64, false, {128, 128}},
    {64, 64, false, {240, 135}, 4},
    {64, 32, false, {480, 270}, 1, kOtherRounding},
    {192, 64, true, {480, 270}, 1, kOtherRounding},
    {64, 64, false, {480, 270}},
    {128, 128, false, {480, 270}},
    {64, 64, false, {960, 540}},
    {64, 3, false, {123, 77}, 2, kOtherRounding, ProofLayer::kLast, 1},
    {128, 3, true, {33, 65}, 1, kOtherRounding, ProofLayer::kLast, 1},
    {64, 3, true, {123, 77}, 2, kOtherRounding, ProofLayer::kLast, 2},
    {64, 3, true, {33, 65}, 3, 0, ProofLayer::kLast, 4},
    {64, 3, false, {1, 1}, 1, 0, ProofLayer::kLast, 4},
    {64, 64, true, {123, 77}, 2, kOtherRounding, ProofLayer::kEnlarging},
    {64, 64, false, {33, 65}, 1, kOtherRounding, ProofLayer::kEnlarging},
    {128, 128, true, {1, 1}, 3, kOtherRounding, ProofLayer::kEnlarging},
    {64, 3, false, {960, 540}, 1, kOtherRounding, ProofLayer::kLast, 1},
    {64, 3, true, {960, 540}, 1, kOtherRounding, ProofLayer::kLast, 2},
    {64, 3, true, {480, 270}, 1, 0, ProofLayer::kLast, 4},
    {64, 64, true, {962, 542}, 1, kOtherRounding, ProofLayer::kEnlarging},
    {64, 64, true, {33, 65}, 2, kOtherFactors, ProofLayer::kGated},
    {128, 128, true, {123, 77}, 1, kOtherFactors, ProofLayer::kGated},
    {128, 128, true, {962, 542}, 1, kOtherFactors, ProofLayer::kGated},
    {64, 64, true, {33, 65}, 2, kOtherFactors, ProofLayer::kGated, 1, /*joined=*/true},
    {128, 128, true, {123, 77}, 1, kOtherFactors, ProofLayer::kGated, 1, /*joined=*/true},
    {64, 64, false, {123, 77}, 2, 0, ProofLayer::kPooled},
    {64, 128, true, {33, 65}, 3, 0, ProofLayer::kPooled},
};

constexpr std::string_view kJoinedKernels[] = {"half_epilogue", "conv3x3_ws", "thin_ws",
                                               "enlarge_ws"};

// One network on one backend.
class ProofRun {
 public:
  static absl::StatusOr<ProofRun> Create(const ProofBackend& create, const BackendOptions& options,
                                         const ProofNetwork& proof) {
    const Network& network = proof.network();
    ProofRun run;
    run.pass_ = std::make_unique<PoolingPass>(PoolingPass{.means = proof.means()});
    ASSIGN_OR_RETURN(run.backend_, create(options));
    ASSIGN_OR_RETURN(run.executable_, run.backend_->Compile(network, Precision::kFast));
    run.stream_ = run.backend_->CreateStream();
    return run;
  }

  // The results of equal images, and the sums of their poolings.
  struct Computed {
    std::vector<Image> images;                   // one per tile
    std::vector<std::vector<ChannelSums>> sums;  // of each pooling, one per tile
  };
  absl::StatusOr<Computed> Compute(const Image& image, int tiles) {
    Computed computed;
    std::vector<TileTask> tasks;
    for (int i = 0; i < tiles; ++i) computed.images.emplace_back(ResultOf(image));
    for (Image& result : computed.images) tasks.push_back(TaskOf(image, result));
    const std::span<const ChannelMeans> means = pass_->means;
    for (size_t pooling = 0; pooling < means.size(); ++pooling) {
      std::vector<ChannelSums>& sums = computed.sums.emplace_back(tiles);
      std::vector<PoolingPass> passes;
      for (ChannelSums& own : sums) {
        passes.push_back({.means = means.first(pooling), .partial_sums = &own});
      }
      std::vector<TileTask> gatherings = tasks;
      for (int i = 0; i < tiles; ++i) gatherings[i].pooling = &passes[i];
      RETURN_IF_ERROR(stream_->Run(*executable_, gatherings));
    }
    RETURN_IF_ERROR(stream_->Run(*executable_, tasks));
    return computed;
  }

  // Seconds of a layer, or of all (-1): the best of some runs.
  absl::StatusOr<double> Time(const Image& image, int layer) {
    Image result(ResultOf(image));
    double best = std::numeric_limits<double>::infinity();
    for (int i = 0; i < 5; ++i) {
      ASSIGN_OR_RETURN(const std::vector<LayerProfile> layers,
                       stream_->Profile(*executable_, TaskOf(image, result)));
      double seconds = 0;
      for (int l = 0; l < static_cast<int>(layers.size()); ++l) {
        if (layer < 0 || l == layer) seconds += layers[l].seconds;
      }
      best = std::min(best, seconds);
    }
    return best;
  }

 private:
  ImageSpec ResultOf(const Image& image) const {
    const int scale = executable_->network().scale;
    ImageSpec spec = image.spec();
    spec.width_px *= scale;
    spec.height_px *= scale;
    return spec;
  }
  TileTask TaskOf(const Image& image, Image& result) const {
    const Size size = image.spec().size();
    const Rect whole{0, 0, size.width, size.height};
    TileTask task;
    task.plan = std::make_shared<const TilePlan>(executable_->Plan(whole, size));
    task.src = image.view();
    task.src_rect = whole;
    task.dst = result.mutable_view();
    task.pooling = pass_.get();
    return task;
  }

  std::unique_ptr<PoolingPass> pass_;  // tasks point to it
  std::unique_ptr<Backend> backend_;
  std::shared_ptr<const Executable> executable_;
  std::unique_ptr<Stream> stream_;
};

// Random values of [0, 1), or NaN, which poisons the memory that a later run finds.
Image MakeImage(Size size, bool poison) {
  std::mt19937 random(2);
  std::uniform_real_distribution<float> any(0, 1);
  Image image({size.width, size.height, 3, SampleType::kF32});
  for (int y = 0; y < size.height; ++y) {
    float* const row = image.mutable_view().row_as<float>(y);
    for (int i = 0; i < size.width * 3; ++i) {
      row[i] = poison ? std::numeric_limits<float>::quiet_NaN() : any(random);
    }
  }
  return image;
}

// Compares sums of as many pixels as integers. A difference is told as one of the means.
void Compare(const ChannelSums& a, const ChannelSums& b, int64_t pixels, ProofResult& result) {
  if (a == b) return;
  const ChannelMeans left = a.Means(pixels), right = b.Means(pixels);
  result.worst = std::max(result.worst, std::numeric_limits<double>::min());
  for (size_t c = 0; c < left.size(); ++c) {
    result.worst = std::max(result.worst, std::abs(double{left[c]} - right[c]));
  }
}

// Whether values are finite, and the same.
void Compare(const ImageView& a, const ImageView& b, ProofResult& result) {
  for (int y = 0; y < a.height_px(); ++y) {
    const float* const left = a.row_as<float>(y);
    const float* const right = b.row_as<float>(y);
    for (int i = 0; i < a.width_px() * 3; ++i) {
      if (std::isfinite(left[i]) && std::memcmp(&left[i], &right[i], sizeof(float)) == 0) continue;
      const double difference = std::abs(double{left[i]} - right[i]);
      result.worst =
          std::max(result.worst,
                   std::isnan(difference) ? std::numeric_limits<double>::infinity() : difference);
    }
  }
}

}  // namespace

std::span<const ProofCase> ListProofCases() { return kCases; }

std::span<const std::string_view> ListJoinedKernels() { return kJoinedKernels; }

std::string Describe(const ProofCase& proof) {
  return absl::StrCat(proof.in_channels, "-", proof.out_channels,
                      proof.layer == ProofLayer::kLast ? absl::StrCat(" x", proof.factor) : "",
                      proof.layer == ProofLayer::kEnlarging ? " up" : "",
                      proof.layer == ProofLayer::kGated ? " gated" : "",
                      proof.layer == ProofLayer::kPooled ? " pooled" : "",
                      proof.joined ? " by new kernels" : "", proof.adds ? " + skip" : "", ", ",
                      proof.image.width, "x", proof.image.height,
                      proof.tiles > 1 ? absl::StrCat(", ", proof.tiles, " tiles") : "");
}

namespace {

bool IsOfGates(std::string_view kernel) { return kernel.ends_with("_gates"); }

// Without repairs, which would hide a wrong result, and whose time is not taken.
BackendOptions PlainOptions(const ProofCase& proof) {
  BackendOptions options{.repairs = false};
  if (proof.joined) {
    options.proven_kernels.assign(std::begin(kJoinedKernels), std::end(kJoinedKernels));
  }
  return options;
}

BackendOptions OptionsFor(std::string_view kernel, const ProofCase& proof) {
  BackendOptions options = PlainOptions(proof);
  if (kernel.ends_with("_epilogue") || IsOfGates(kernel)) {
    options.proven_kernels.emplace_back(kernel);
  } else {
    options.kernel = kernel;
  }
  return options;
}

}  // namespace

absl::StatusOr<ProofResult> ProveKernel(const ProofBackend& create, std::string_view kernel,
                                        const ProofCase& proof,
                                        const std::function<void()>& on_plain) {
  const ProofNetwork network(proof);
  ProofResult result;
  if (IsOfGates(kernel) != (proof.layer == ProofLayer::kGated)) {
    result.supported = false;
    return result;
  }
  absl::StatusOr<ProofRun> own = ProofRun::Create(create, OptionsFor(kernel, proof), network);
  if (absl::IsUnimplemented(own.status())) {
    result.supported = false;
    return result;
  }
  RETURN_IF_ERROR(own.status());
  ASSIGN_OR_RETURN(ProofRun plain, ProofRun::Create(create, PlainOptions(proof), network));
  const Image poison = MakeImage(proof.image, true), image = MakeImage(proof.image, false);
  ASSIGN_OR_RETURN(const ProofRun::Computed expected, plain.Compute(image, 1));
  if (on_plain) on_plain();
  RETURN_IF_ERROR(own->Compute(poison, proof.tiles).status());
  for (int run = 0; run < 3; ++run) {  // alone, captured, and as a graph
    ASSIGN_OR_RETURN(const ProofRun::Computed computed, own->Compute(image, proof.tiles));
    for (const Image& tile : computed.images) {
      Compare(tile.view(), expected.images.front().view(), result);
    }
    for (size_t i = 0; i < computed.sums.size(); ++i) {
      for (const ChannelSums& tile : computed.sums[i]) {
        Compare(tile, expected.sums[i].front(), proof.image.Area(), result);
      }
    }
  }
  result.right = result.worst <= proof.tolerance;
  if (!result.right || proof.image.width < kTimedWidth) return result;
  ASSIGN_OR_RETURN(const double seconds, own->Time(image, network.proven()));
  ASSIGN_OR_RETURN(const double plain_seconds, plain.Time(image, network.proven()));
  result.us = seconds * 1e6;
  result.plain_us = plain_seconds * 1e6;
  return result;
}

}  // namespace upscaled
