#include "tests/bench/image_kernels/cpu/image_kernels.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <numeric>
#include <thread>
#include <vector>

#include "engine/base/aligned_buffer.h"
#include "engine/base/check.h"
#include "engine/base/int_math.h"
#include "engine/base/status_macros.h"
#include "engine/image/bilateral.h"
#include "engine/image/image.h"
#include "engine/image/quality.h"
#include "tests/bench/image_kernels/cpu/image_matrix.h"

namespace upscaled::cpu {
namespace {

// Gives the rows of an image in memory.
class ImageRows final : public RowSource {
 public:
  explicit ImageRows(ImageView image) : image_(image) {}
  const ImageSpec& spec() const override { return image_.spec; }
  absl::Status ReadRows(MutableImageView rows) override {
    for (int y = 0; y < rows.height_px(); ++y) {
      std::memcpy(rows.row(y), image_.row(next_row_++), rows.spec.row_bytes());
    }
    return absl::OkStatus();
  }

 private:
  const ImageView image_;
  int next_row_ = 0;
};

absl::Status FilterRgb(const ImageWork& work, const uint8_t* src, uint8_t* dst) {
  const ImageSpec spec{work.size.width, work.size.height, 3, SampleType::kU8};
  ImageRows rows({src, spec, static_cast<ptrdiff_t>(spec.row_bytes())});
  const auto filtered = MakeBilateral(rows, work.bilateral);
  Image row({spec.width_px, 1, 3, SampleType::kU16});
  for (int y = 0; y < spec.height_px; ++y, dst += spec.row_bytes()) {
    RETURN_IF_ERROR(filtered->ReadRows(row.mutable_view()));
    const uint16_t* samples = row.view().row_as<uint16_t>(0);
    for (size_t i = 0; i < spec.row_bytes(); ++i) {
      dst[i] = static_cast<uint8_t>((samples[i] + 128) / 257);
    }
  }
  return absl::OkStatus();
}

// A table has every level's value: rounding once, and no division.
constexpr std::array<float, 256> LevelValues() {
  std::array<float, 256> values{};
  for (int i = 0; i < 256; ++i) values[i] = i / 255.0f;
  return values;
}

void ToPlanes(const uint8_t* src, int64_t begin, int64_t end, float* dst) {
  static constexpr std::array<float, 256> kValues = LevelValues();
  for (int64_t i = begin; i < end; ++i) {
    float* const pixel = dst + 8 * i;
    for (int c = 0; c < 3; ++c) pixel[c] = kValues[src[3 * i + c]];
    std::fill_n(pixel + 3, 5, 0.0f);
  }
}

void FromPlanes(const float* src, int64_t begin, int64_t end, uint8_t* dst) {
  for (int64_t i = begin; i < end; ++i) {
    for (int c = 0; c < 3; ++c) {
      // In this order NaN becomes 0.
      const float value = src[8 * i + c] > 0.0f ? src[8 * i + c] : 0.0f;
      dst[3 * i + c] = static_cast<uint8_t>(std::min(value, 1.0f) * 255 + 0.5f);
    }
  }
}

constexpr ImageStep kSteps[] = {
    {ImageOp::kCopy, "memcpy"},
    {ImageOp::kBilateral, "vectors"},
    {ImageOp::kTranspose, "blocks"},
    {ImageOp::kTranspose, "vectors in blocks"},
    {ImageOp::kToPlanes, "a table"},
    {ImageOp::kFromPlanes, "a pixel at a time"},
    {ImageOp::kRowStats, "vectors"},
    {ImageOp::kColumnStats, "along rows"},
    {ImageOp::kColumnStats, "vectors"},
    {ImageOp::kSquaredError, "vectors"},
    {ImageOp::kSsim, "separable vectors"},
};

class CpuImageKernels final : public ImageKernels {
 public:
  explicit CpuImageKernels(int threads) : threads_(threads) {}

  std::span<const ImageStep> steps() const override { return kSteps; }

  absl::StatusOr<double> Run(size_t step, const ImageWork& work, std::span<const uint8_t> src,
                             std::span<uint8_t> dst) override {
    UPSCALED_CHECK(kSteps[step].op == work.op && src.size() == SourceBytes(work) &&
                   dst.size() == ResultBytes(work));
    const auto start = std::chrono::steady_clock::now();
    RETURN_IF_ERROR(Compute(kSteps[step], work, src, dst));
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }

 private:
  // Calls `part(begin, end)` over [0, count) on all threads; parts begin at multiples of `unit`.
  template <typename Function>
  void Split(int64_t count, int64_t unit, Function part) const {
    const int64_t share = (count + unit * threads_ - 1) / (unit * threads_) * unit;
    std::vector<std::jthread> others;
    for (int64_t begin = share; begin < count; begin += share) {
      others.emplace_back([=] { part(begin, std::min(count, begin + share)); });
    }
    part(int64_t{0}, std::min(count, share));
  }

  absl::Status Compute(const ImageStep& step, const ImageWork& work, std::span<const uint8_t> src,
                       std::span<uint8_t> dst) const {
    const Size size = work.size;
    const auto* floats = reinterpret_cast<const float*>(src.data());
    auto* result = reinterpret_cast<float*>(dst.data());
    switch (work.op) {
      case ImageOp::kCopy:
        Split(static_cast<int64_t>(src.size()), 64, [&](int64_t begin, int64_t end) {
          std::memcpy(dst.data() + begin, src.data() + begin, static_cast<size_t>(end - begin));
        });
        break;
      case ImageOp::kBilateral:
        return FilterRgb(work, src.data(), dst.data());
      case ImageOp::kTranspose: {
        const auto transpose = step.name == "blocks" ? &TransposeBlocks : &TransposeVectors;
        Split(size.height, 32, [&](int64_t begin, int64_t end) {
          transpose(size, static_cast<int>(begin), static_cast<int>(end), floats, result);
        });
        break;
      }
      case ImageOp::kToPlanes:
        Split(size.Area(), 1,
              [&](int64_t begin, int64_t end) { ToPlanes(src.data(), begin, end, result); });
        break;
      case ImageOp::kFromPlanes:
        Split(size.Area(), 1,
              [&](int64_t begin, int64_t end) { FromPlanes(floats, begin, end, dst.data()); });
        break;
      case ImageOp::kRowStats:
        Split(size.height, 1, [&](int64_t begin, int64_t end) {
          RowStatsVectors(size, static_cast<int>(begin), static_cast<int>(end), floats,
                          reinterpret_cast<LineStats*>(dst.data()));
        });
        break;
      case ImageOp::kColumnStats:
        ColumnStats(step, size, floats, reinterpret_cast<LineStats*>(dst.data()));
        break;
      case ImageOp::kSquaredError:
        SumRows(&SquaredErrorOfRows, size, size.height, floats, dst.data());
        break;
      case ImageOp::kSsim:
        SumRows(&SsimOfRows, size, size.height - kSsimWindow + 1, floats, dst.data());
        break;
    }
    return absl::OkStatus();
  }

  void ColumnStats(const ImageStep& step, Size size, const float* src, LineStats* stats) const {
    const auto compute = step.name == "vectors" ? &ColumnStatsRunVectors : &ColumnStatsRun;
    const int runs = CeilDiv(size.height, kRunRows);
    AlignedBuffer<LineStats> all(static_cast<size_t>(runs) * size.width);
    Split(runs, 1, [&](int64_t begin, int64_t end) {
      for (int64_t run = begin; run < end; ++run) {
        compute(size, static_cast<int>(run), src, all.data() + run * size.width);
      }
    });
    MergeRuns(size, all.data(), stats);
  }

  template <typename Function>
  void SumRows(Function sums_of_rows, Size size, int rows, const float* src, uint8_t* dst) const {
    const PlanePair planes{src, src + size.Area(), size};
    std::vector<double> sums(static_cast<size_t>(rows));
    Split(rows, 1, [&](int64_t begin, int64_t end) {
      sums_of_rows(planes, static_cast<int>(begin), static_cast<int>(end), sums.data() + begin);
    });
    const double total = std::accumulate(sums.begin(), sums.end(), 0.0);
    std::memcpy(dst, &total, sizeof(total));
  }

  const int threads_;
};

}  // namespace

std::unique_ptr<ImageKernels> CreateImageKernels(int threads) {
  return std::make_unique<CpuImageKernels>(threads);
}

}  // namespace upscaled::cpu
