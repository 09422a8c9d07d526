#include "engine/image/frame_canvas.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/check.h"
#include "engine/base/status_macros.h"
#include "engine/image/codec_checks.h"
#include "engine/image/exif.h"
#include "engine/image/orientation.h"
#include "engine/image/stored_image.h"

namespace upscaled {
namespace {

void CopyPixels(const ImageView& from, const MutableImageView& to) {
  for (int y = 0; y < to.height_px(); ++y) std::memcpy(to.row(y), from.row(y), to.spec.row_bytes());
}

void ClearPixels(const MutableImageView& image) {
  for (int y = 0; y < image.height_px(); ++y) std::memset(image.row(y), 0, image.spec.row_bytes());
}

// The rows of a canvas, once for each frame.
class CanvasRows final : public RowSource {
 public:
  explicit CanvasRows(ImageView canvas) : canvas_(canvas) {}
  const ImageSpec& spec() const override { return canvas_.spec; }
  absl::Status ReadRows(MutableImageView rows) override {
    CopyPixels(canvas_.Crop({0, next_row_, rows.width_px(), rows.height_px()}), rows);
    next_row_ += rows.height_px();
    return absl::OkStatus();
  }

 private:
  const ImageView canvas_;
  int next_row_ = 0;
};

class CanvasDecoder final : public ImageDecoder {
 public:
  CanvasDecoder(const ImageHeader& header, std::unique_ptr<FrameReader> reader, int frame,
                const Cancellation* cancellation)
      : ImageDecoder(header),
        reader_(std::move(reader)),
        only_frame_(header.animation.has_value() ? 0 : frame),
        frames_(header.animation.has_value() ? header.animation->frames : frame),
        cancellation_(cancellation) {
    metadata_ = std::move(reader_->metadata);
    TurnDensity(header.orientation, metadata_);
    warnings_ = reader_->warnings;
  }

  absl::StatusOr<FrameDelay> NextFrame() override {
    if (only_frame_ > 0 || frame_ == frames_ || (frame_ > 0 && next_row_ < spec().height_px))
      return absl::FailedPreconditionError(
          absl::StrCat("frame ", frame_, " of ", frames_, " has ", next_row_, " rows read"));
    RETURN_IF_ERROR(Draw());
    return stored_.delay;
  }

  absl::Status ReadRows(MutableImageView rows) override {
    while (frame_ < only_frame_) RETURN_IF_ERROR(Draw());
    RETURN_IF_ERROR(CheckRows(spec(), next_row_, rows.spec));
    RETURN_IF_ERROR(upright_ != nullptr ? upright_->ReadRows(rows) : rows_->ReadRows(rows));
    next_row_ += rows.height_px();
    if (frame_ == frames_ && next_row_ == spec().height_px) {
      late_metadata_ = std::move(reader_->late_metadata);
      TurnDensity(header().orientation, late_metadata_);
    }
    return absl::OkStatus();
  }

 private:
  // Brings the canvas from one frame to the next.
  absl::Status Draw();
  MutableImageView Place() { return canvas_.mutable_view().Crop(stored_.place); }

  const std::unique_ptr<FrameReader> reader_;
  const int only_frame_;  // 0: all of them
  const int frames_;      // that are drawn
  const Cancellation* const cancellation_;
  Image canvas_, previous_;  // previous_: the place of a frame before it was drawn
  StoredFrame stored_;       // that was drawn last
  int frame_ = 0;            // its number
  std::unique_ptr<RowSource> rows_, upright_;
  int next_row_ = 0;
};

absl::Status CanvasDecoder::Draw() {
  if (cancellation_ != nullptr) RETURN_IF_ERROR(cancellation_->status());
  if (frame_ == 0) {
    canvas_ = Image(StoredSpec(header()));
    ClearPixels(canvas_.mutable_view());
  } else if (!stored_.place.empty() && stored_.disposal == Disposal::kClear) {
    ClearPixels(Place());
  } else if (!stored_.place.empty() && stored_.disposal == Disposal::kPrevious) {
    CopyPixels(previous_.view(), Place());
  }
  ASSIGN_OR_RETURN(stored_, reader_->Next());
  ++frame_;
  const ImageSpec& canvas = canvas_.spec();
  UPSCALED_CHECK(Intersect(stored_.place, {0, 0, canvas.width_px, canvas.height_px}) ==
                 stored_.place);
  if (!stored_.place.empty()) {
    if (stored_.disposal == Disposal::kPrevious) {
      if (previous_.spec() != Place().spec) previous_ = Image(Place().spec);
      CopyPixels(Place(), previous_.mutable_view());
    }
    RETURN_IF_ERROR(reader_->Draw(Place()));
  }
  warnings_ = reader_->warnings;
  rows_ = std::make_unique<CanvasRows>(canvas_.view());
  if (header().orientation != Orientation::kIdentity)
    upright_ = MakeUpright(*rows_, header().orientation);
  next_row_ = 0;
  return absl::OkStatus();
}

}  // namespace

absl::Status FrameCounter::Add(int64_t stored_px) {
  ++frames_;
  pixels_ += std::max(stored_px, canvas_.Area());
  if (frames_ > limits_.max_frames)
    return BeyondLimit(limits_, DecodeLimit::kFrames, frames_,
                       absl::StrCat(format_, ": the animation has at least ", frames_,
                                    " frames; the limit is ", limits_.max_frames));
  if (frames_ > 1 && pixels_ > limits_.max_pixels)
    return BeyondLimit(limits_, DecodeLimit::kPixels, pixels_,
                       absl::StrCat(format_, ": the animation's first ", frames_, " frames have ",
                                    pixels_, " pixels; the limit is ", limits_.max_pixels));
  return absl::OkStatus();
}

absl::Status CheckAnimationBytes(const char* format, size_t seen_bytes,
                                 const DecodeLimits& limits) {
  if (seen_bytes < limits.max_animation_bytes) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat(format, ": the animation has more than ", limits.max_animation_bytes,
                   " bytes, the limit on files that are held whole"));
}

absl::Status DescribeFrames(const char* format, const Animation& animation,
                            const DecodeLimits& limits, ImageHeader& header) {
  if (limits.frame > animation.frames)
    return absl::InvalidArgumentError(absl::StrCat(
        format, ": frame ", limits.frame, " is asked for; the image has ", animation.frames));
  if (animation.frames == 1) return absl::OkStatus();
  if (limits.frame == 0) {
    header.animation = animation;
    return absl::OkStatus();
  }
  header.may_move = true;
  if (!limits.warns_of_frames) return absl::OkStatus();
  header.warnings.push_back(absl::StrCat(
      format, ": it is an animation of ", animation.frames, " frames: ",
      limits.frame == 1 ? "the first" : absl::StrCat("the one of number ", limits.frame),
      " is computed, ", animation.frames - 1, " left out"));
  return absl::OkStatus();
}

size_t CanvasBytes(const ImageHeader& header) {
  const ImageSpec stored = StoredSpec(header);
  const bool turned = header.orientation != Orientation::kIdentity;
  return 2 * ImageBytes(stored) + (turned ? UprightBytes(stored) : 0);
}

std::unique_ptr<ImageDecoder> MakeCanvasDecoder(const ImageHeader& header,
                                                std::unique_ptr<FrameReader> reader,
                                                const DecodeLimits& limits,
                                                const Cancellation* cancellation) {
  return std::make_unique<CanvasDecoder>(header, std::move(reader), std::max(limits.frame, 1),
                                         cancellation);
}

}  // namespace upscaled
