#include "engine/pipeline/shared_rows.h"

#include <algorithm>
#include <cstring>

#include "engine/base/check.h"
#include "engine/base/status_macros.h"
#include "engine/pipeline/row_spec.h"

namespace upscaled {
namespace {

ImageSpec HeldSpec(const ImageSpec& source, int window_rows) {
  return WithHeight(source, std::min(source.height_px, window_rows));
}

}  // namespace

class SharedRows::Reader final : public RowSource {
 public:
  explicit Reader(SharedRows& shared) : shared_(shared) {}

  const ImageSpec& spec() const override { return shared_.source_.spec(); }
  int next_row() const { return next_row_; }

  absl::Status ReadRows(MutableImageView rows) override {
    UPSCALED_CHECK(rows.height_px() <= spec().height_px - next_row_);
    for (int done = 0; done < rows.height_px();) {
      int count = rows.height_px() - done;
      const MutableImageView held = shared_.Held(next_row_, count);
      RETURN_IF_ERROR(shared_.PullTo(next_row_ + count));
      for (int y = 0; y < count; ++y) {
        std::memcpy(rows.row(done + y), held.row(y), spec().row_bytes());
      }
      next_row_ += count;
      done += count;
    }
    return absl::OkStatus();
  }

 private:
  SharedRows& shared_;
  int next_row_ = 0;
};

SharedRows::SharedRows(RowSource& source, int readers, int window_rows)
    : source_(source), held_(HeldSpec(source.spec(), window_rows)) {
  for (int i = 0; i < readers; ++i) readers_.push_back(std::make_unique<Reader>(*this));
}

SharedRows::~SharedRows() = default;

RowSource& SharedRows::reader(int index) { return *readers_[static_cast<size_t>(index)]; }

size_t SharedRows::Bytes(const ImageSpec& source, int window_rows) {
  return ImageBytes(HeldSpec(source, window_rows));
}

MutableImageView SharedRows::Held(int y, int& count) {
  const int rows = held_.spec().height_px;
  const int first = y % rows;
  count = std::min(count, rows - first);
  return held_.mutable_view().Crop({0, first, held_.spec().width_px, count});
}

absl::Status SharedRows::PullTo(int end) {
  const auto slowest = std::ranges::min_element(readers_, {}, &Reader::next_row);
  UPSCALED_CHECK(end - (*slowest)->next_row() <= held_.spec().height_px);
  while (pulled_rows_ < end) {
    int count = end - pulled_rows_;
    RETURN_IF_ERROR(source_.ReadRows(Held(pulled_rows_, count)));
    pulled_rows_ += count;
  }
  return absl::OkStatus();
}

}  // namespace upscaled
