#include "tests/engine/pipeline/fakes.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "engine/base/status_macros.h"
#include "engine/image/convert.h"
#include "engine/pipeline/alpha_rows.h"
#include "engine/pipeline/flat_alpha.h"
#include "engine/pipeline/gray_areas.h"
#include "engine/pipeline/kept_colours.h"
#include "tests/support/run_image.h"
#include "tests/support/test_image.h"

namespace upscaled::test {
namespace {

constexpr float kKernel[3][3] = {
    {0.02f, 0.11f, 0.05f}, {0.21f, 0.29f, 0.03f}, {0.07f, 0.13f, 0.01f}};

// The period of the term of the place, in pixels of source and result.
constexpr int kPlacePeriod = 31;

double MaxOf(SampleType type) {
  return type == SampleType::kU8 ? 255 : type == SampleType::kU16 ? 65535 : 1;
}

void Store(const MutableImageView& image, int x, int y, int channel, float value) {
  const int i = x * image.spec.channels + channel;
  const float clamped = std::min(std::max(0.0f, value), 1.0f);
  switch (image.spec.type) {
    case SampleType::kU8:
      image.row_as<uint8_t>(y)[i] = static_cast<uint8_t>(clamped * 255.0f + 0.5f);
      break;
    case SampleType::kU16:
      image.row_as<uint16_t>(y)[i] = static_cast<uint16_t>(clamped * 65535.0f + 0.5f);
      break;
    case SampleType::kF32:
      image.row_as<float>(y)[i] = value;
      break;
  }
}

// The colour of all pixels.
std::vector<float> ToFloats(const ImageView& image) {
  const double unit = 1 / MaxOf(image.spec.type);
  std::vector<float> values;
  values.reserve(3 * static_cast<size_t>(image.spec.size().Area()));
  for (int y = 0; y < image.height_px(); ++y) {
    for (int x = 0; x < image.width_px(); ++x) {
      for (int c = 0; c < 3; ++c) {
        values.push_back(static_cast<float>(SampleAt(image, x, y, c) * unit));
      }
    }
  }
  return values;
}

class FakeStream final : public Stream {
 public:
  explicit FakeStream(const FakeBackend::Hook& before) : before_(before) {}
  absl::Status Run(const Executable& executable, std::span<const TileTask> tiles) override {
    for (const TileTask& tile : tiles) {
      if (before_) RETURN_IF_ERROR(before_(tile));
      RETURN_IF_ERROR(static_cast<const FakeExecutable&>(executable).Run(tile));
    }
    return absl::OkStatus();
  }

 private:
  const FakeBackend::Hook& before_;
};

// `image` seen through flips and a swap of its axes; `back` undoes the same.
Image Transformed(const Image& image, int index, bool back) {
  const ImageSpec from = image.spec();
  ImageSpec to = from;
  if (index & 4) std::swap(to.width_px, to.height_px);
  Image result(to);
  for (int y = 0; y < from.height_px; ++y) {
    for (int x = 0; x < from.width_px; ++x) {
      int u = x, v = y;
      if (back && (index & 4)) std::swap(u, v);
      const Size flipped = back ? to.size() : from.size();
      if (index & 1) u = flipped.width - 1 - u;
      if (index & 2) v = flipped.height - 1 - v;
      if (!back && (index & 4)) std::swap(u, v);
      std::memcpy(result.mutable_view().row(v) + u * to.pixel_bytes(),
                  image.view().row(y) + x * from.pixel_bytes(), from.pixel_bytes());
    }
  }
  return result;
}

}  // namespace

FakeExecutable::FakeExecutable(int scale, Size preferred_tile) : preferred_tile_(preferred_tile) {
  network_.name = "fake";
  network_.scale = scale;
  network_.layers.resize(1);
}

std::shared_ptr<const FakeExecutable> FakeExecutable::ThatReadsAnywhere(int scale) {
  auto executable = std::make_shared<FakeExecutable>(scale);
  executable->network_.layers.push_back({.op = Op::kPad,
                                         .name = "wrapped",
                                         .inputs = {0},
                                         .out_channels = kRgbChannels,
                                         .in_channels = kRgbChannels,
                                         .pad_mode = PadMode::kWrap});
  return executable;
}

TilePlan FakeExecutable::MakePlan(const Rect& tile, Size image) const {
  ++plan_calls_;
  const auto begin = [](int at) { return at / kPlacePeriod * kPlacePeriod; };
  const auto length = [&](int at, int size) {
    return begin(at + size - 1) + kPlacePeriod - begin(at);
  };
  return {.tile = tile,
          .image = image,
          .input = Intersect(Expand(tile, 1), {0, 0, image.width, image.height}),
          // As if it computed blocks, in which its arithmetic differs from place to place.
          .regions = {{begin(tile.x), begin(tile.y), length(tile.x, tile.width),
                       length(tile.y, tile.height)}},
          .pass_costs = {kTileOverheadCost + 10'000 * Expand(tile, 1).Area()}};
}

size_t FakeExecutable::WorkspaceBytes(Size tile) const {
  return sizeof(float) * 3 * (tile.width + 2) * (tile.height + 2);
}

absl::Status FakeExecutable::Run(const TileTask& task) const {
  const int scale = network_.scale;
  const TilePlan& plan = *task.plan;
  const Rect& tile = plan.tile;
  const Rect image{0, 0, plan.image.width, plan.image.height};
  if (plan.maker != this || !image.Contains(task.src_rect) || !image.Contains(tile) ||
      tile.empty() || !task.src_rect.Contains(plan.input) ||
      task.src.spec.size() != Size{task.src_rect.width, task.src_rect.height} ||
      task.dst.spec.size() != Size{tile.width * scale, tile.height * scale}) {
    return absl::InternalError("the tile's rectangles do not fit each other");
  }
  const std::vector<float> source = ToFloats(task.src);
  const auto source_pixel = [&](int x, int y) {
    x = std::clamp(x, 0, image.width - 1) - task.src_rect.x;
    y = std::clamp(y, 0, image.height - 1) - task.src_rect.y;
    return source.data() + 3 * (static_cast<size_t>(y) * task.src_rect.width + x);
  };
  for (int y = 0; y < task.dst.height_px(); ++y) {
    for (int x = 0; x < task.dst.width_px(); ++x) {
      const int px = tile.x * scale + x, py = tile.y * scale + y;
      const int place = (px * 7 + py * 13 + image.width * 3 + image.height * 5) % kPlacePeriod;
      float sum[3];
      std::fill_n(sum, 3, 0.003f * static_cast<float>(place));
      for (int dy = -1; dy <= 1; ++dy) {
        for (int dx = -1; dx <= 1; ++dx) {
          const float* pixel = source_pixel(px / scale + dx, py / scale + dy);
          for (int c = 0; c < 3; ++c) sum[c] += kKernel[dy + 1][dx + 1] * pixel[c];
        }
      }
      for (int c = 0; c < 3; ++c) Store(task.dst, x, y, c, sum[c]);
    }
  }
  return absl::OkStatus();
}

std::unique_ptr<Stream> FakeBackend::CreateStream() {
  return std::make_unique<FakeStream>(before_);
}

ShufflingExecutor::ShufflingExecutor(int threads, uint32_t seed) : random_(seed) {
  for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { Run(); });
}

ShufflingExecutor::~ShufflingExecutor() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  for (std::thread& thread : threads_) thread.join();
}

void ShufflingExecutor::Submit(std::shared_ptr<const Executable> executable,
                               std::vector<TileTask> tiles, Cancellation*, TileDone done) {
  absl::MutexLock lock(&mutex_);
  for (size_t i = 0; i < tiles.size(); ++i) {
    queue_.push_back([executable, task = tiles[i], i, done] {
      done(i, static_cast<const FakeExecutable&>(*executable).Run(task));
    });
  }
}

void ShufflingExecutor::Run() {
  const auto wake = [this]()
                        ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return stopping_ || !queue_.empty(); };
  while (true) {
    std::function<void()> work;
    {
      absl::MutexLock lock(&mutex_);
      mutex_.Await(absl::Condition(&wake));
      if (queue_.empty()) return;
      std::swap(queue_[random_() % queue_.size()], queue_.back());
      work = std::move(queue_.back());
      queue_.pop_back();
    }
    work();
  }
}

Image ComputeWhole(const FakeExecutable& executable, const Image& image, SampleType type) {
  const int scale = executable.network().scale;
  const ImageSpec& spec = image.spec();
  Image result({spec.width_px * scale, spec.height_px * scale, spec.channels, type});
  std::memset(result.mutable_view().data, 0, result.bytes());
  if (!executable.Run(WholeTask(executable, image.view(), result.mutable_view())).ok())
    std::abort();
  return result;
}

Image ComputeWholeTta(const FakeExecutable& executable, const Image& image, SampleType type) {
  std::vector<Image> variants;
  for (int i = 0; i < 8; ++i) {
    const Image result = ComputeWhole(executable, Transformed(image, i, false), SampleType::kF32);
    variants.push_back(Transformed(result, i, true));
  }
  ImageSpec spec = variants[0].spec();
  spec.type = type;
  Image mean(spec);
  std::memset(mean.mutable_view().data, 0, mean.bytes());
  for (int y = 0; y < spec.height_px; ++y) {
    for (int x = 0; x < spec.width_px; ++x) {
      for (int c = 0; c < 3; ++c) {
        float sum = 0;
        for (const Image& variant : variants) {
          sum += variant.view().row_as<float>(y)[x * spec.channels + c];
        }
        Store(mean.mutable_view(), x, y, c, sum / 8);
      }
    }
  }
  return mean;
}

namespace {

// `channels` of the image as one of their own.
Image PickChannels(const Image& image, const std::vector<int>& channels) {
  const size_t bytes = SampleBytes(image.spec().type);
  Image picked({image.spec().width_px, image.spec().height_px, static_cast<int>(channels.size()),
                image.spec().type});
  for (int y = 0; y < image.spec().height_px; ++y) {
    uint8_t* to = picked.mutable_view().row(y);
    for (int x = 0; x < image.spec().width_px; ++x) {
      for (const int channel : channels) {
        std::memcpy(to, image.view().row(y) + x * image.spec().pixel_bytes() + channel * bytes,
                    bytes);
        to += bytes;
      }
    }
  }
  return picked;
}

Image Converted(const Image& image, int channels, SampleType type) {
  ImageSpec spec = image.spec();
  spec.channels = channels;
  spec.type = type;
  Image converted(spec);
  ConvertPixels(image.view(), converted.mutable_view());
  return converted;
}

// Both of kU16.
Image WithAlpha(const Image& rgb, const Image& alpha) {
  ImageSpec spec = rgb.spec();
  spec.channels = 4;
  Image both(spec);
  for (int y = 0; y < spec.height_px; ++y) {
    for (int x = 0; x < spec.width_px; ++x) {
      uint16_t* pixel = both.mutable_view().row_as<uint16_t>(y) + 4 * x;
      std::copy_n(rgb.view().row_as<uint16_t>(y) + 3 * x, 3, pixel);
      pixel[3] = alpha.view().row_as<uint16_t>(y)[x];
    }
  }
  return both;
}

// As `type`, which is 16 bits if arithmetic follows.
Image ComputeColours(const FakeExecutable& executable, const Image& rgb,
                     const UpscaleOptions& options, SampleType type) {
  if (options.keep_colours) type = SampleType::kU16;
  Image result =
      options.tta ? ComputeWholeTta(executable, rgb, type) : ComputeWhole(executable, rgb, type);
  for (int i = 0; options.keep_colours && i < kKeptColoursRounds; ++i) {
    ViewRows computed(result.view()), source(rgb.view());
    KeptColours kept(computed, source);
    result = *ReadAll(kept);
  }
  ViewRows computed(result.view()), source(rgb.view());
  GrayAreas gray(computed, source, type);
  return *ReadAll(gray);
}

Image ComputeAlpha(const FakeExecutable& executable, const Image& rgba,
                   const UpscaleOptions& options) {
  const Image computed =
      ComputeColours(executable, PickChannels(rgba, {3, 3, 3}), options, SampleType::kU16);
  ViewRows computed_rows(computed.view()), source(rgba.view());
  FlatAlpha alpha(computed_rows, source);
  return *ReadAll(alpha);
}

}  // namespace

Image ComputePass(const FakeExecutable& executable, const Image& image,
                  const UpscaleOptions& options, SampleType type) {
  const Image rgb = PickChannels(image, {0, 1, 2});
  if (!image.spec().has_alpha()) {
    return Converted(ComputeColours(executable, rgb, options, type), 3, type);
  }
  const int scale = executable.network().scale;
  if (options.alpha == AlphaMethod::kNetwork && scale > 1) {
    const Image colours = ComputeColours(executable, rgb, options, SampleType::kU16);
    return Converted(WithAlpha(colours, ComputeAlpha(executable, image, options)), 4, type);
  }
  const Image colours = ComputeColours(executable, rgb, options, type);
  Image both = Converted(colours, 4, colours.spec().type);
  EnlargeAlpha(image.view(), 0, image.spec().height_px, scale, both.mutable_view(), 0);
  return Converted(both, 4, type);
}

double SampleAt(const ImageView& image, int x, int y, int channel) {
  const int i = x * image.spec.channels + channel;
  switch (image.spec.type) {
    case SampleType::kU8:
      return image.row(y)[i];
    case SampleType::kU16:
      return image.row_as<uint16_t>(y)[i];
    case SampleType::kF32:
      return image.row_as<float>(y)[i];
  }
  return 0;
}

}  // namespace upscaled::test
