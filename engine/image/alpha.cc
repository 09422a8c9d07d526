// A chain of stages. Each spreads colours by one pixel, and needs the rows above and below of the
// stage before it: three rows each, at any height of the image.
#include "engine/image/alpha.h"

#include <array>
#include <cstring>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "engine/base/aligned_buffer.h"
#include "engine/base/check.h"
#include "engine/base/status_macros.h"
#include "engine/image/codec_checks.h"

namespace upscaled {
namespace {

// A row of pixels, and a mark for each with a colour. Columns -1 and width exist and have none.
struct ColouredRow {
  AlignedBuffer<uint8_t> pixels;
  std::vector<uint8_t> has_colour;  // for column x at x + 1
  int coloured = 0;                 // how many

  explicit ColouredRow(const ImageSpec& spec)
      : pixels(spec.row_bytes()), has_colour(spec.width_px + 2) {}

  void CopyFrom(const ColouredRow& other) {
    std::memcpy(pixels.data(), other.pixels.data(), pixels.bytes());
    has_colour = other.has_colour;
    coloured = other.coloured;
  }
};

// Rows from top to bottom, each pulled once.
class Stage {
 public:
  virtual ~Stage() = default;
  virtual absl::Status Next(ColouredRow& row) = 0;
};

template <typename T>
class FirstStage final : public Stage {
 public:
  explicit FirstStage(RowSource& source) : source_(source) {}

  absl::Status Next(ColouredRow& row) override {
    ImageSpec spec = source_.spec();
    spec.height_px = 1;
    RETURN_IF_ERROR(
        source_.ReadRows({row.pixels.data(), spec, static_cast<ptrdiff_t>(spec.row_bytes())}));
    const T* alpha = reinterpret_cast<const T*>(row.pixels.data()) + spec.channels - 1;
    row.coloured = 0;
    for (int x = 0; x < spec.width_px; ++x, alpha += spec.channels) {
      row.has_colour[x + 1] = *alpha > 0;
      row.coloured += *alpha > 0;
    }
    return absl::OkStatus();
  }

 private:
  RowSource& source_;
};

template <typename T>
class SpreadStage final : public Stage {
 public:
  SpreadStage(std::unique_ptr<Stage> before, const ImageSpec& spec)
      : before_(std::move(before)),
        spec_(spec),
        rows_{ColouredRow(spec), ColouredRow(spec), ColouredRow(spec)} {}

  absl::Status Next(ColouredRow& row) override {
    if (next_row_ == 0) RETURN_IF_ERROR(Pull());
    if (next_row_ + 1 < spec_.height_px) RETURN_IF_ERROR(Pull());
    const ColouredRow& here = Row(next_row_);
    row.CopyFrom(here);
    if (here.coloured < spec_.width_px) Spread(row);
    ++next_row_;
    return absl::OkStatus();
  }

 private:
  ColouredRow& Row(int y) { return rows_[y % 3]; }
  absl::Status Pull() { return before_->Next(Row(pulled_rows_++)); }

  // Fills the pixels of next_row_ without a colour but with a coloured neighbour.
  void Spread(ColouredRow& row) {
    std::vector<const ColouredRow*> around;
    for (int y = next_row_ - 1; y <= next_row_ + 1; ++y)
      if (y >= 0 && y < spec_.height_px && Row(y).coloured > 0) around.push_back(&Row(y));
    if (around.empty()) return;
    const ColouredRow& here = Row(next_row_);
    for (int x = 0; x < spec_.width_px; ++x)
      if (!here.has_colour[x + 1]) FillPixel(around, x, row);
  }

  void FillPixel(std::span<const ColouredRow* const> around, int x, ColouredRow& row) {
    using Sum = std::conditional_t<std::is_same_v<T, float>, float, uint32_t>;
    const int channels = spec_.channels;
    Sum sum[3] = {};
    int neighbours = 0;
    for (const ColouredRow* other : around)
      for (int column = x - 1; column <= x + 1; ++column) {
        if (!other->has_colour[column + 1]) continue;
        const T* pixel = reinterpret_cast<const T*>(other->pixels.data()) + column * channels;
        for (int c = 0; c < channels - 1; ++c) sum[c] += pixel[c];
        ++neighbours;
      }
    if (neighbours == 0) return;
    T* pixel = reinterpret_cast<T*>(row.pixels.data()) + x * channels;
    for (int c = 0; c < channels - 1; ++c) {
      if constexpr (std::is_same_v<T, float>)
        pixel[c] = sum[c] / neighbours;
      else
        pixel[c] = static_cast<T>((sum[c] + neighbours / 2) / neighbours);
    }
    row.has_colour[x + 1] = 1;
    ++row.coloured;
  }

  const std::unique_ptr<Stage> before_;
  const ImageSpec spec_;
  std::array<ColouredRow, 3> rows_;  // a ring of what `before_` gave
  int pulled_rows_ = 0;
  int next_row_ = 0;
};

template <typename T>
std::unique_ptr<Stage> MakeStages(RowSource& source, int radius_px) {
  std::unique_ptr<Stage> stage = std::make_unique<FirstStage<T>>(source);
  for (int i = 0; i < radius_px; ++i)
    stage = std::make_unique<SpreadStage<T>>(std::move(stage), source.spec());
  return stage;
}

class AlphaBleed final : public RowSource {
 public:
  AlphaBleed(RowSource& source, int radius_px)
      : spec_(source.spec()),
        stages_(spec_.type == SampleType::kU8    ? MakeStages<uint8_t>(source, radius_px)
                : spec_.type == SampleType::kU16 ? MakeStages<uint16_t>(source, radius_px)
                                                 : MakeStages<float>(source, radius_px)),
        row_(spec_) {}

  const ImageSpec& spec() const override { return spec_; }

  absl::Status ReadRows(MutableImageView rows) override {
    RETURN_IF_ERROR(CheckRows(spec_, next_row_, rows.spec));
    for (int y = 0; y < rows.height_px(); ++y, ++next_row_) {
      RETURN_IF_ERROR(stages_->Next(row_));
      std::memcpy(rows.row(y), row_.pixels.data(), spec_.row_bytes());
    }
    return absl::OkStatus();
  }

 private:
  const ImageSpec spec_;
  const std::unique_ptr<Stage> stages_;
  ColouredRow row_;
  int next_row_ = 0;
};

}  // namespace

std::unique_ptr<RowSource> MakeAlphaBleed(RowSource& source, int radius_px) {
  UPSCALED_CHECK(source.spec().has_alpha());
  return std::make_unique<AlphaBleed>(source, radius_px);
}

RowStage PlanAlphaBleed(const ImageSpec& source, int radius_px) {
  const size_t rows = 3 * static_cast<size_t>(radius_px) + 1;
  constexpr size_t kRowOverhead = 256;
  return {{.source = source,
           .result = source,
           .border_px = radius_px,
           .memory_bytes = rows * (source.row_bytes() + source.width_px + kRowOverhead)},
          [radius_px](RowSource& rows) { return MakeAlphaBleed(rows, radius_px); }};
}

}  // namespace upscaled
