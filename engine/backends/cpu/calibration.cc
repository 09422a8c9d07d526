#include "engine/backends/cpu/calibration.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/backends/backend.h"
#include "engine/backends/cpu/cpu_kernel_set.h"
#include "engine/backends/cpu/row_schedule.h"
#include "engine/backends/cpu/run_tile.h"
#include "engine/base/status_macros.h"
#include "engine/base/string_view.h"
#include "engine/graph/network_plan.h"
#include "engine/graph/pooling.h"
#include "engine/image/image.h"
#include "engine/model/op.h"
#include "engine/model/shapes.h"

namespace upscaled::cpu {
namespace {

// Several blocks, and some that hang over the layers' ends.
constexpr int kSide = 46;
using Color = std::array<int, 3>;

// Only whole numbers of the generator: what distributions make of it is the library's affair.
class Noise {
 public:
  int Below(int end) { return static_cast<int>(generator_() % static_cast<unsigned>(end)); }
  Color NextColor() { return {Below(256), Below(256), Below(256)}; }

 private:
  std::mt19937 generator_{1};
};

template <typename ColorAt>
Image Draw(ColorAt color_at) {
  Image image({kSide, kSide, 3, SampleType::kU8});
  uint8_t* pixel = image.mutable_view().data;
  for (int y = 0; y < kSide; ++y) {
    for (int x = 0; x < kSide; ++x) {
      for (const int value : color_at(x, y)) {
        *pixel++ = static_cast<uint8_t>(std::clamp(value, 0, 255));
      }
    }
  }
  return image;
}

Color Gray(int value) { return {value, value, value}; }

constexpr Color kBlack = {0, 0, 0}, kWhite = {255, 255, 255};
// Pairs of colours as far apart as black and white.
constexpr std::pair<Color, Color> kSaturated[] = {
    {{255, 0, 0}, {0, 0, 255}},
    {{255, 0, 255}, {0, 255, 0}},
    {{255, 255, 0}, {0, 0, 255}},
    {{0, 255, 255}, {255, 0, 0}},
};

Image Checkers(int side_px, const Color& a, const Color& b) {
  return Draw([&](int x, int y) { return (x / side_px + y / side_px) % 2 == 0 ? b : a; });
}

// Flat shapes with hard edges.
Image Drawing(Noise& noise) {
  struct Disc {
    int x, y, radius;
    Color color;
  };
  std::vector<Disc> discs;
  for (int i = 0; i < 24; ++i) {
    discs.push_back(
        {noise.Below(kSide), noise.Below(kSide), 1 + noise.Below(12), noise.NextColor()});
  }
  return Draw([&](int x, int y) {
    Color color = {255, 255, 255};
    for (const Disc& disc : discs) {
      const int dx = x - disc.x, dy = y - disc.y;
      if (dx * dx + dy * dy <= disc.radius * disc.radius) color = disc.color;
    }
    return color;
  });
}

// Noise of every scale alike, as photographs have it: grids of 1 to 32 pixels, interpolated.
Image Clouds(Noise& noise) {
  std::vector<int> sums(size_t{kSide} * kSide * 3, 128);
  for (int cell = 32; cell >= 1; cell /= 2) {
    const int side = kSide / cell + 2;
    std::vector<Color> grid(static_cast<size_t>(side) * side);
    for (Color& color : grid) color = noise.NextColor();
    for (int y = 0; y < kSide; ++y) {
      for (int x = 0; x < kSide; ++x) {
        const int right = x % cell, down = y % cell;
        const Color* const corner = &grid[y / cell * side + x / cell];
        for (int c = 0; c < 3; ++c) {
          const int above = corner[0][c] * (cell - right) + corner[1][c] * right;
          const int below = corner[side][c] * (cell - right) + corner[side + 1][c] * right;
          const int value = (above * (cell - down) + below * down) / (cell * cell);
          sums[(y * kSide + x) * 3 + c] += (value - 128) * 2 / 5;
        }
      }
    }
  }
  return Draw([&](int x, int y) {
    const int* const sum = &sums[(y * kSide + x) * 3];
    return Color{sum[0], sum[1], sum[2]};
  });
}

// Strokes of up to `width_px`, short and long ones, as print has them, with hard edges or soft
// ones.
Image Strokes(Noise& noise, int width_px, bool soft, const Color& paper, const Color& ink) {
  struct Stroke {
    int x, y, dx, dy, width;  // in halves of a pixel
  };
  std::vector<Stroke> strokes;
  const int reach = 6 * width_px;  // of a glyph
  for (int i = 0; i < kSide * kSide / (2 * reach * width_px); ++i) {
    strokes.push_back({noise.Below(2 * kSide), noise.Below(2 * kSide),
                       noise.Below(4 * reach) - 2 * reach, noise.Below(4 * reach) - 2 * reach,
                       1 + noise.Below(2 * width_px)});
  }
  const auto covers = [](const Stroke& stroke, int x, int y) {
    const int64_t dx = stroke.dx, dy = stroke.dy;
    const int64_t square = std::max<int64_t>(dx * dx + dy * dy, 1);  // of its length; a dot's is 1
    const int64_t along = std::clamp<int64_t>((x - stroke.x) * dx + (y - stroke.y) * dy, 0, square);
    const int64_t off_x = (x - stroke.x) * square - dx * along;
    const int64_t off_y = (y - stroke.y) * square - dy * along;
    return 4 * (off_x * off_x + off_y * off_y) <= stroke.width * stroke.width * square * square;
  };
  const auto inked = [&](int x, int y) {
    return std::any_of(strokes.begin(), strokes.end(),
                       [&](const Stroke& stroke) { return covers(stroke, x, y); });
  };
  return Draw([&](int x, int y) {
    x *= 2, y *= 2;
    if (!soft) return inked(x, y) ? ink : paper;
    const int quarters = inked(x, y) + inked(x + 1, y) + inked(x, y + 1) + inked(x + 1, y + 1);
    Color color = paper;
    for (int c = 0; c < 3; ++c) color[c] += (ink[c] - paper[c]) * quarters / 4;
    return color;
  });
}

struct SyntheticImages {
  std::vector<Image> plain;
  std::vector<Image> saturated;
};

SyntheticImages DrawSyntheticImages() {
  Noise noise;
  SyntheticImages images;
  std::vector<Image>& plain = images.plain;
  plain.push_back(Drawing(noise));
  plain.push_back(Clouds(noise));
  plain.push_back(Draw([&](int, int) { return noise.NextColor(); }));
  plain.push_back(Draw([&](int, int) { return Gray(noise.Below(2) * 255); }));
  plain.push_back(Draw([&](int, int) {
    return Color{noise.Below(2) * 255, noise.Below(2) * 255, noise.Below(2) * 255};
  }));
  plain.push_back(Checkers(1, kWhite, kBlack));
  plain.push_back(Checkers(3, kWhite, kBlack));
  for (const int width_px : {1, 2, 4, 8}) {
    for (const bool soft : {false, true}) {
      plain.push_back(Strokes(noise, width_px, soft, /*paper=*/kWhite, /*ink=*/kBlack));
      plain.push_back(Strokes(noise, width_px, soft, /*paper=*/kBlack, /*ink=*/kWhite));
    }
  }
  for (const auto& [a, b] : kSaturated) {
    for (const int side_px : {1, 2, 3}) images.saturated.push_back(Checkers(side_px, a, b));
    for (const int width_px : {1, 3}) {
      images.saturated.push_back(Strokes(noise, width_px, /*soft=*/false, /*paper=*/a, /*ink=*/b));
      images.saturated.push_back(Strokes(noise, width_px, /*soft=*/false, /*paper=*/b, /*ink=*/a));
    }
  }
  return images;
}

// The same for all networks, so they are drawn once.
const SyntheticImages& Images() {
  static const SyntheticImages images = DrawSyntheticImages();
  return images;
}

// By how much the largest value that some layer reads has grown.
float LargestGrowth(const Calibration& before, const Calibration& after) {
  float growth = 1;
  for (const auto& [layer, ranges] : after) {
    const float was = *std::ranges::max_element(before.at(layer));
    if (was > 0) growth = std::max(growth, *std::ranges::max_element(ranges) / was);
  }
  return growth;
}

// A network of which saturated images drive some layer further out is not made for them: room for
// its values there would cost all other images their precision.
constexpr float kMaxGrowth = 4;

// All passes over an image.
void RunImage(const Program& program, const Image& image, HugeBuffer& workspace) {
  const Size size = image.spec().size();
  const Rect whole{0, 0, size.width, size.height};
  const int scale = program.network.scale;
  Image result({size.width * scale, size.height * scale, 3, SampleType::kU8});
  TileTask task{std::make_shared<const TilePlan>(PlanTile(program, size, whole)), image.view(),
                whole, result.mutable_view()};
  Team alone;
  std::vector<ChannelMeans> means;
  CachedLayers cache(program, std::make_shared<SpareBuffers>());
  for (const int pooling : program.poolings) {
    ChannelSums sums;
    const PoolingPass pass{means, &sums, &cache};
    task.pooling = &pass;
    RunTile(program, task, workspace, alone, [](const RowSchedule::Step&) {});
    const int pooled = program.network.layers[pooling].inputs[0];
    means.push_back(sums.Means(task.plan->layer_sizes[pooled].Area()));
  }
  const PoolingPass last{means, nullptr, &cache};
  task.pooling = &last;
  RunTile(program, task, workspace, alone, [](const RowSchedule::Step&) {});
}

// A layer whose kernel wants to know.
struct Calibrated {
  const KernelEntry* kernel;
  int main;  // indices in the network: the layer with the weights, and where its node ends
  int last;
};

absl::StatusOr<std::vector<Calibrated>> CalibratedLayers(const Network& network, Isa isa,
                                                         const KernelEntry* forced) {
  const CpuKernelSet kernels(isa, Precision::kFast);
  ASSIGN_OR_RETURN(const NetworkPlan plan, PlanNetwork(network, kernels, forced));
  std::vector<Calibrated> layers;
  for (const Node& node : plan.nodes) {
    const auto* kernel = static_cast<const KernelEntry*>(node.kernel.info);
    if (kernel == nullptr) continue;
    if (kernel->prelude != nullptr) {
      kernel = &kernels.PreludeKernel(kernel->prelude(network.layers[node.main]));
    }
    if (kernel->calibrated == nullptr) continue;
    layers.push_back({kernel, node.main, node.layer()});
  }
  return layers;
}

// The layer of a program in fp32 that reads what the calibrated one reads; -1: none, where a forced
// kernel keeps layers apart that are one here.
int ReaderIn(const Program& program, const Calibrated& calibrated) {
  const int index = program.index_of[calibrated.main];
  const bool prelude = index >= 0 && program.steps[index].kernel_entry->prelude != nullptr;
  return prelude ? program.network.layers[index].inputs[0] : index;
}

// A layer's kernel in fp32 that raises `peak` to the largest magnitude of what it computes.
class PeakObserver final : public LayerKernel {
 public:
  PeakObserver(std::unique_ptr<LayerKernel> kernel, float& peak)
      : kernel_(std::move(kernel)), peak_(peak) {}

  void Run(std::span<const Tensor> src, const Tensor& dst, const Rect& rows,
           float* scratch) const override {
    kernel_->Run(src, dst, rows, scratch);
    const int first = std::max(rows.x, dst.left_px);
    for (int y = std::max(rows.y, 0); y < rows.bottom(); ++y) {
      for (int c = 0; c < dst.channels; ++c) {
        const float* value = dst.At(y, first) + dst.ChannelOffset(c);
        for (int x = first; x < rows.right(); ++x, value += dst.pixel_stride) {
          peak_ = std::max(peak_, std::abs(*value));
        }
      }
    }
  }

  int block_px() const override { return kernel_->block_px(); }
  Margin margin() const override { return kernel_->margin(); }

 private:
  const std::unique_ptr<LayerKernel> kernel_;
  float& peak_;
};

// Halves are 2^-24 apart below 2^-14: a layer with less than this peak would lose digits that the
// integers have, and one of 2^-25 all of them.
constexpr float kMinPeak = 1.0f / (1 << 10);

// UNIMPLEMENTED names a layer of `network` that 16-bit floats cannot hold. `peaks`: of the layers
// of the program that computed it, 0 for those that were not observed. Sums are as exact as their
// larger part, and values for the whole image stay in fp32.
absl::Status CheckPeaks(const Network& network, const Program& program,
                        const std::vector<float>& peaks) {
  const std::vector<bool> per_image = IsPerImage(network);
  for (const Layer& reader : network.layers) {
    if (reader.op == Op::kAdd) continue;
    for (const int read : reader.inputs) {
      const int index = program.index_of[read];
      if (per_image[read] || index <= 0 || peaks[index] == 0 || peaks[index] >= kMinPeak) {
        continue;
      }
      const Layer& layer = network.layers[read];
      return absl::UnimplementedError(
          absl::StrCat("the cpu backend cannot run layer '", layer.name, "' (",
                       ToAbsl(OpName(layer.op)), ") in precision 'fast': its values reach ",
                       peaks[index], ", 16-bit floats need ", kMinPeak));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Calibration> Calibrate(const Network& network, Isa isa, const KernelEntry* forced) {
  ASSIGN_OR_RETURN(const std::vector<Calibrated> layers, CalibratedLayers(network, isa, forced));
  Calibration calibration;
  // Its blocks lie as those of the integers do.
  const KernelEntry* const observed = FindKernel("winograd_f4");
  const bool any = std::any_of(layers.begin(), layers.end(), [&](const Calibrated& calibrated) {
    return observed->supports(network.layers[calibrated.main]);
  });
  ASSIGN_OR_RETURN(Program program, BuildProgram(network, isa, any ? observed : nullptr));
  for (const Calibrated& layer : layers) {
    const int reader = ReaderIn(program, layer);
    if (reader < 0) continue;
    std::unique_ptr<LayerKernel>& kernel = program.steps[reader].kernel;
    kernel = layer.kernel->observer(program.network.layers[reader], std::move(kernel),
                                    calibration[layer.last]);
  }
  std::vector<float> peaks(program.steps.size());
  for (size_t i = 0; i < peaks.size(); ++i) {
    std::unique_ptr<LayerKernel>& kernel = program.steps[i].kernel;
    if (kernel != nullptr) kernel = std::make_unique<PeakObserver>(std::move(kernel), peaks[i]);
  }
  HugeBuffer workspace;
  for (const Image& image : Images().plain) RunImage(program, image, workspace);
  const Calibration plain = calibration;
  for (const Image& image : Images().saturated) RunImage(program, image, workspace);
  RETURN_IF_ERROR(CheckPeaks(network, program, peaks));
  return LargestGrowth(plain, calibration) > kMaxGrowth ? plain : calibration;
}

}  // namespace upscaled::cpu
