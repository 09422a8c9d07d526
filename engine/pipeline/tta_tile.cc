#include "engine/pipeline/tta_tile.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "engine/base/check.h"
#include "engine/pipeline/dihedral.h"

namespace upscaled {
namespace {

constexpr int kRgb = 3;

template <typename T>
void CopySamples(const ImageView& src, Dihedral transform, T* dst) {
  const Size size = transform.Apply(src.spec.size());
  const auto walk = transform.WalkOver(
      src.spec.size(), static_cast<ptrdiff_t>(src.spec.pixel_bytes()), src.stride_bytes);
  for (int v = 0; v < size.height; ++v) {
    const uint8_t* from = src.data + walk.origin + v * walk.step_v;
    for (int u = 0; u < size.width; ++u, dst += kRgb, from += walk.step_u) {
      std::copy_n(reinterpret_cast<const T*>(from), kRgb, dst);
    }
  }
}

template <typename T>
void WriteRounded(const float* src, float factor, float max, const MutableImageView& dst) {
  const int channels = dst.spec.channels;
  for (int y = 0; y < dst.height_px(); ++y) {
    T* to = dst.row_as<T>(y);
    for (int x = 0; x < dst.width_px(); ++x, to += channels, src += kRgb) {
      for (int c = 0; c < kRgb; ++c) {
        const float value = std::min(std::max(0.0f, src[c] * factor), 1.0f);
        to[c] = static_cast<T>(value * max + 0.5f);
      }
    }
  }
}

}  // namespace

void CopyTransformed(const ImageView& src, Dihedral variant, uint8_t* dst) {
  if (src.spec.type == SampleType::kU8) {
    CopySamples(src, variant, dst);
  } else {
    CopySamples(src, variant, reinterpret_cast<uint16_t*>(dst));
  }
}

Rect TtaInputRect(const Executable& executable, const Rect& tile, Size image) {
  Rect all = executable.InputRect(tile, image);
  for (int i = 1; i < Dihedral::kCount; ++i) {
    const Dihedral transform(i);
    const Rect input = executable.InputRect(transform.Apply(tile, image), transform.Apply(image));
    all = Cover(all, transform.Undo(input, image));
  }
  return all;
}

size_t TtaTile::Bytes(Size tile, Size input, int scale, SampleType source_type) {
  const size_t result = kRgb * static_cast<size_t>(tile.Area()) * scale * scale;
  const size_t source = kRgb * static_cast<size_t>(input.Area());
  return 2 * result * sizeof(float) + source * SampleBytes(source_type) +
         3 * AlignedBuffer<float>::kAlignmentBytes;
}

TtaTile::TtaTile(Size tile, Size input, int scale, SampleType source_type)
    : source_(kRgb * static_cast<size_t>(input.Area()) * SampleBytes(source_type)),
      result_(kRgb * static_cast<size_t>(tile.Area()) * scale * scale),
      sum_(result_.size()) {}

void TtaTile::Start(TileRun& run, const std::shared_ptr<const Executable>& executable,
                    const TileTask& task, std::span<const std::vector<ChannelMeans>> means,
                    std::function<void()> finished) {
  run_ = &run;
  executable_ = executable;
  task_ = task;
  means_ = means;
  finished_ = std::move(finished);
  variant_ = 0;
  UPSCALED_CHECK(kRgb * static_cast<size_t>(task.src_rect.Area()) *
                     SampleBytes(task.src.spec.type) <=
                 source_.size());
  UPSCALED_CHECK(kRgb * static_cast<size_t>(task.dst.spec.size().Area()) <= result_.size());
  SubmitVariant();
}

void TtaTile::SubmitVariant() {
  const Dihedral transform(variant_);
  TileTask task;
  task.image = transform.Apply(task_.image);
  task.tile = transform.Apply(task_.tile, task_.image);
  task.src_rect = executable_->InputRect(task.tile, task.image);

  Rect input = transform.Undo(task.src_rect, task_.image);
  input.x -= task_.src_rect.x;
  input.y -= task_.src_rect.y;
  const ImageView src = task_.src.Crop(input);
  CopyTransformed(src, transform, source_.data());
  const ImageSpec src_spec{task.src_rect.width, task.src_rect.height, kRgb, src.spec.type};
  task.src = ImageView(source_.data(), src_spec, static_cast<ptrdiff_t>(src_spec.row_bytes()));

  const Size result = transform.Apply(task_.dst.spec.size());
  const ImageSpec dst_spec{result.width, result.height, kRgb, SampleType::kF32};
  task.dst = MutableImageView(reinterpret_cast<uint8_t*>(result_.data()), dst_spec,
                              static_cast<ptrdiff_t>(dst_spec.row_bytes()));

  if (!means_.empty()) task.means = means_[static_cast<size_t>(variant_)];

  run_->Submit(executable_, {task}, [this](size_t, const absl::Status& status) {
    if (status.ok()) {
      AddToSum();
      if (++variant_ < Dihedral::kCount) return SubmitVariant();
      WriteMean();
    }
    executable_.reset();
    // Moved out: the object may start its next tile, or be gone, before the call returns.
    const auto finished = std::move(finished_);
    finished();
  });
}

void TtaTile::AddToSum() {
  const Dihedral transform(variant_);
  const Size size = task_.dst.spec.size();
  const Size transformed = transform.Apply(size);
  const auto walk = transform.WalkOver(size, kRgb, ptrdiff_t{kRgb} * size.width);
  const float* from = result_.data();
  for (int v = 0; v < transformed.height; ++v) {
    float* to = sum_.data() + walk.origin + v * walk.step_v;
    for (int u = 0; u < transformed.width; ++u, from += kRgb, to += walk.step_u) {
      for (int c = 0; c < kRgb; ++c) to[c] = variant_ == 0 ? from[c] : to[c] + from[c];
    }
  }
}

void TtaTile::WriteMean() const {
  constexpr float kShare = 1.0f / Dihedral::kCount;
  if (task_.dst.spec.type == SampleType::kU8) {
    WriteRounded<uint8_t>(sum_.data(), kShare, 255.0f, task_.dst);
  } else {
    WriteRounded<uint16_t>(sum_.data(), kShare, 65535.0f, task_.dst);
  }
}

}  // namespace upscaled
