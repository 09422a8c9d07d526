#include "engine/proof/kernel_proof.h"

#include <algorithm>
#include <cmath>
#include <cstring>
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
#include "engine/model/network.h"

namespace upscaled {
namespace {

// Layers of at most 32 columns, or of many channels, have mma.sync without the new kernel instead
// of wgmma. It may round sums in another way, and so some halves.
constexpr float kOtherRounding = 2e-3f;

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
};

// Convolutions with random weights, of values about 1. No other layer is one that the kernel takes.
class ProofNetwork {
 public:
  explicit ProofNetwork(const ProofCase& proof) {
    network_.name = "proof";
    network_.layers.push_back({.op = Op::kInput, .name = "input", .out_channels = kRgbChannels});
    switch (proof.layer) {
      case ProofLayer::kBetween:
        AddBetween(proof);
        break;
      case ProofLayer::kLast:
        AddLast(proof);
        break;
      case ProofLayer::kEnlarging:
        AddEnlarging(proof);
        break;
      case ProofLayer::kGated:
        AddGated(proof);
    }
  }

  const Network& network() const { return network_; }
  // The index of the convolution that is proven; -1: all layers are.
  int proven() const { return proven_; }
  // Any means of the pooled layers.
  const std::vector<ChannelMeans>& means() const { return means_; }

 private:
  void AddBetween(const ProofCase& proof) {
    const int skip = AddConv("skip", 0, proof.out_channels, 3, Activation::kPRelu);
    const int wide = AddConv("wide", skip, proof.in_channels, 1, Activation::kRelu);
    proven_ = AddConv("proven", wide, proof.out_channels, 3, Activation::kPRelu);
    AddEnd(proof.adds ? AddSum(proven_, skip) : proven_);
  }

  void AddLast(const ProofCase& proof) {
    const int wide = AddConv("wide", 0, proof.in_channels, 3, Activation::kPRelu);
    const int factor = proof.factor;
    int last = proven_ =
        AddConv("proven", wide, proof.out_channels * factor * factor, 3, Activation::kNone);
    if (factor > 1) last = AddPlain(Op::kPixelShuffle, "shuffle", last, proof.out_channels, factor);
    if (proof.adds) {
      AddSum(last,
             factor > 1 ? AddPlain(Op::kResizeNearest, "enlarged", 0, kRgbChannels, factor) : 0);
    }
    network_.scale = factor;
  }

  void AddEnlarging(const ProofCase& proof) {
    const int skip = AddConv("skip", 0, proof.out_channels, 3, Activation::kPRelu);
    const int down = AddConv("down", skip, proof.in_channels, 2, Activation::kRelu, 2);
    proven_ =
        AddConv("proven", down, proof.out_channels, 2, Activation::kPRelu, 2, Op::kConvTranspose);
    AddEnd(proof.adds ? AddSum(proven_, skip) : proven_);
    network_.align_px = 2;
  }

  void AddGated(const ProofCase& proof) {
    const int wide = AddConv("wide", 0, proof.in_channels, 3, Activation::kPRelu);
    const int pool = AddPlain(Op::kGlobalAveragePool, "pool", wide, proof.in_channels, 1);
    const int factors = AddConv("factors", pool, proof.in_channels, 1, Activation::kSigmoid, 1,
                                Op::kFullyConnected);
    const int gated = AddPlain(Op::kMul, "gated", wide, proof.in_channels, 1);
    network_.layers[gated].inputs.push_back(factors);
    const int down = AddConv("down", gated, proof.out_channels, 2, Activation::kPRelu, 2);
    const int up =
        AddConv("up", down, proof.in_channels, 2, Activation::kPRelu, 2, Op::kConvTranspose);
    AddEnd(AddSum(up, gated));
    network_.align_px = 2;
    means_.emplace_back(proof.in_channels, 0.25f);
  }

  // The last layer, 1x1.
  void AddEnd(int input) { AddConv("last", input, kRgbChannels, 1, Activation::kNone); }

  int AddSum(int first, int second) {
    const int sum = AddPlain(Op::kAdd, "sum", first, network_.layers[first].out_channels, 1);
    network_.layers[sum].inputs.push_back(second);
    return sum;
  }

  int AddPlain(Op op, const char* name, int input, int out, int factor) {
    network_.layers.push_back({.op = op,
                               .name = name,
                               .inputs = {input},
                               .out_channels = out,
                               .in_channels = network_.layers[input].out_channels,
                               .factor = factor});
    return static_cast<int>(network_.layers.size()) - 1;
  }

  int AddConv(const char* name, int input, int out, int kernel, Activation activation,
              int stride = 1, Op op = Op::kConv) {
    const int in = network_.layers[input].out_channels;
    Layer layer{.op = op,
                .name = name,
                .inputs = {input},
                .out_channels = out,
                .in_channels = in,
                .kernel_px = kernel,
                .stride_px = stride,
                .padding_px = stride == 1 ? kernel / 2 : 0,
                .activation = activation};
    std::normal_distribution<float> weight(0, 1 / std::sqrt(1.0f * in * kernel * kernel));
    layer.weights.resize(size_t{1} * in * out * kernel * kernel);
    for (float& w : layer.weights) w = weight(random_);
    layer.bias.resize(out);
    for (float& b : layer.bias) b = weight(random_);
    if (activation == Activation::kPRelu) {
      std::uniform_real_distribution<float> slope(-0.5f, 1.5f);
      layer.slope.resize(out);
      for (float& s : layer.slope) s = slope(random_);
    }
    network_.layers.push_back(std::move(layer));
    return static_cast<int>(network_.layers.size()) - 1;
  }

  std::mt19937 random_{1};
  Network network_;
  std::vector<ChannelMeans> means_;
  int proven_ = -1;
};

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

  // The results of equal images, one per tile.
  absl::StatusOr<std::vector<Image>> Compute(const Image& image, int tiles) {
    std::vector<Image> results;
    std::vector<TileTask> tasks;
    for (int i = 0; i < tiles; ++i) results.emplace_back(ResultOf(image));
    for (Image& result : results) tasks.push_back(TaskOf(image, result));
    RETURN_IF_ERROR(stream_->Run(*executable_, tasks));
    return results;
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

void Compare(const ImageView& a, const ImageView& b, ProofResult& result) {
  for (int y = 0; y < a.height_px(); ++y) {
    const float* const left = a.row_as<float>(y);
    const float* const right = b.row_as<float>(y);
    for (int i = 0; i < a.width_px() * 3; ++i) {
      if (std::memcmp(&left[i], &right[i], sizeof(float)) == 0) continue;
      const double difference = std::abs(double{left[i]} - right[i]);
      result.worst =
          std::max(result.worst,
                   std::isnan(difference) ? std::numeric_limits<double>::infinity() : difference);
    }
  }
}

}  // namespace

std::span<const ProofCase> ListProofCases() { return kCases; }

std::string Describe(const ProofCase& proof) {
  return absl::StrCat(proof.in_channels, "-", proof.out_channels,
                      proof.layer == ProofLayer::kLast ? absl::StrCat(" x", proof.factor) : "",
                      proof.layer == ProofLayer::kEnlarging ? " up" : "",
                      proof.layer == ProofLayer::kGated ? " gated" : "",
                      proof.adds ? " + skip" : "", ", ", proof.image.width, "x", proof.image.height,
                      proof.tiles > 1 ? absl::StrCat(", ", proof.tiles, " tiles") : "");
}

namespace {

bool IsOfGates(std::string_view kernel) { return kernel.ends_with("_gates"); }

BackendOptions OptionsFor(std::string_view kernel) {
  std::string name(kernel);
  if (kernel.ends_with("_epilogue") || IsOfGates(kernel))
    return {.proven_kernels = {std::move(name)}};
  return {.kernel = std::move(name)};
}

}  // namespace

absl::StatusOr<ProofResult> ProveKernel(const ProofBackend& create, std::string_view kernel,
                                        const ProofCase& proof) {
  const ProofNetwork network(proof);
  ProofResult result;
  if (IsOfGates(kernel) != (proof.layer == ProofLayer::kGated)) {
    result.supported = false;
    return result;
  }
  absl::StatusOr<ProofRun> own = ProofRun::Create(create, OptionsFor(kernel), network);
  if (absl::IsUnimplemented(own.status())) {
    result.supported = false;
    return result;
  }
  RETURN_IF_ERROR(own.status());
  ASSIGN_OR_RETURN(ProofRun plain, ProofRun::Create(create, {}, network));
  const Image poison = MakeImage(proof.image, true), image = MakeImage(proof.image, false);
  ASSIGN_OR_RETURN(const std::vector<Image> expected, plain.Compute(image, 1));
  RETURN_IF_ERROR(own->Compute(poison, proof.tiles).status());
  for (int run = 0; run < 3; ++run) {  // alone, captured, and as a graph
    ASSIGN_OR_RETURN(const std::vector<Image> results, own->Compute(image, proof.tiles));
    for (const Image& computed : results) {
      Compare(computed.view(), expected.front().view(), result);
    }
  }
  result.right = result.worst <= proof.tolerance;
  if (!result.right) return result;
  ASSIGN_OR_RETURN(const double seconds, own->Time(image, network.proven()));
  ASSIGN_OR_RETURN(const double plain_seconds, plain.Time(image, network.proven()));
  result.us = seconds * 1e6;
  result.plain_us = plain_seconds * 1e6;
  return result;
}

}  // namespace upscaled
