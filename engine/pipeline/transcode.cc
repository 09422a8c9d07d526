#include "engine/pipeline/transcode.h"

#include <algorithm>
#include <iterator>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/alternatives.h"
#include "engine/base/status_macros.h"
#include "engine/base/string_view.h"
#include "engine/image/convert.h"
#include "engine/image/crop.h"
#include "engine/image/exif.h"
#include "engine/image/replay_source.h"
#include "engine/pipeline/frame_upscaler.h"

namespace upscaled {
namespace {

constexpr size_t kPortionBytes = 256 * 1024;  // result rows on their way to the encoder

// Adds the time of a scope.
class Timed {
 public:
  // `span` may be null.
  Timed(const Clock& clock, absl::Duration& total, Interval* span = nullptr)
      : clock_(clock), total_(total), span_(span), start_(clock.Now()) {}
  ~Timed() {
    const absl::Time end = clock_.Now();
    total_ += end - start_;
    if (span_ != nullptr) span_->Include(start_, end);
  }

 private:
  const Clock& clock_;
  absl::Duration& total_;
  Interval* const span_;
  const absl::Time start_;
};

// Times a wait for the request's input or output, and tells of it.
class Waiting {
 public:
  Waiting(const TranscodeRequest& request, absl::Duration& total)
      : request_(request), timed_(request.clock, total) {
    if (request_.on_wait) request_.on_wait(true);
  }
  ~Waiting() {
    if (request_.on_wait) request_.on_wait(false);
  }

 private:
  const TranscodeRequest& request_;
  const Timed timed_;
};

class TimedSource final : public ByteSource {
 public:
  TimedSource(const TranscodeRequest& request, TranscodeStats& stats)
      : request_(request), stats_(stats) {}
  absl::StatusOr<size_t> Read(std::span<uint8_t> dst) override {
    const Waiting waiting(request_, stats_.read);
    return request_.input.Read(dst);
  }

 private:
  const TranscodeRequest& request_;
  TranscodeStats& stats_;
};

class TimedSink final : public ByteSink {
 public:
  TimedSink(const TranscodeRequest& request, TranscodeStats& stats)
      : request_(request), stats_(stats) {}
  absl::Status Write(std::span<const uint8_t> bytes) override {
    const Waiting waiting(request_, stats_.write);
    stats_.result_bytes += static_cast<int64_t>(bytes.size());
    return request_.output.Write(bytes);
  }

 private:
  const TranscodeRequest& request_;
  TranscodeStats& stats_;
};

class TimedRows final : public RowSource {
 public:
  TimedRows(RowSource& rows, const Clock& clock, TranscodeStats& stats)
      : rows_(rows), clock_(clock), stats_(stats) {}
  const ImageSpec& spec() const override { return rows_.spec(); }
  absl::Status ReadRows(MutableImageView rows) override {
    const Timed timed(clock_, stats_.decode, &stats_.decoding);
    return rows_.ReadRows(rows);
  }

 private:
  RowSource& rows_;
  const Clock& clock_;
  TranscodeStats& stats_;
};

// Sentences about the losses of `header`'s image in `encoded`.
std::vector<std::string> PlanWarnings(const ImageHeader& header, const EncodeOptions& options,
                                      const ImageSpec& encoded) {
  std::vector<std::string> warnings = header.warnings;
  const std::string format(FormatName(options.format));
  if (header.spec.has_alpha() && !encoded.has_alpha())
    warnings.push_back("alpha is left out: " + format + " holds none");
  if (header.spec.type == SampleType::kU16 &&
      OutputSpecFor(options.format, header.spec).type == SampleType::kU8)
    warnings.push_back("16 bits a sample become 8: " + format + " holds no more");
  if (encoded.type == SampleType::kU16 && options.format == ImageFormat::kAvif)
    warnings.push_back("16 bits a sample become 12: avif holds no more");
  if (options.animation.has_value() && options.format == ImageFormat::kWebp &&
      options.animation->plays > UINT16_MAX)
    warnings.push_back(absl::StrCat("the animation is shown 65535 times, not ",
                                    options.animation->plays, ": webp states no more"));
  return warnings;
}

int PortionRows(const ImageSpec& spec) {
  const int rows = static_cast<int>(kPortionBytes / std::max<size_t>(spec.row_bytes(), 1));
  return std::clamp(rows, 1, spec.height_px);
}

// Takes the frames of one image from its decoder to the result, one after the other.
class FrameRun {
 public:
  FrameRun(const TranscodeRequest& request, const TranscodePlan& plan, ImageDecoder& decoder,
           ByteSink& sink, TranscodeStats& stats)
      : request_(request),
        plan_(plan),
        decoder_(decoder),
        sink_(sink),
        stats_(stats),
        upscaler_(plan.upscale, plan.frames(), request.executor, request.cancellation,
                  request.progress) {}

  absl::Status Run() {
    RETURN_IF_ERROR(Begin());
    for (int frame = 0; frame < plan_.frames(); ++frame) {
      if (plan_.encode.animation.has_value()) RETURN_IF_ERROR(NextFrame());
      TimedRows source(decoder_, request_.clock, stats_);
      const auto part = plan_.crop.make(source);
      ASSIGN_OR_RETURN(RowSource * result, Upscale(*part));
      const auto rows = plan_.convert.make(*result);
      RETURN_IF_ERROR(Encode(*rows));
    }
    stats_.unchanged_px = upscaler_.unchanged_px();
    stats_.unchanged_frames = upscaler_.unchanged_frames();
    return End();
  }

 private:
  const ImageSpec& encoded() const { return plan_.convert.result; }
  Timed TimeEncoding() { return Timed(request_.clock, stats_.encode, &stats_.encoding); }

  absl::Status Begin() {
    const Timed timed = TimeEncoding();
    const ImageMetadata metadata = ResultMetadata(decoder_.metadata(), /*too_late=*/false);
    ASSIGN_OR_RETURN(encoder_, CreateImageEncoder(plan_.encode, encoded(), metadata, sink_,
                                                  request_.cancellation));
    return absl::OkStatus();
  }

  absl::Status NextFrame() {
    FrameDelay delay;
    {
      // If rows are pulled through the stages, decoding is a part of it and is taken off.
      const Timed inferring(request_.clock, stats_.infer);
      const Timed timed(request_.clock, stats_.decode, &stats_.decoding);
      ASSIGN_OR_RETURN(delay, decoder_.NextFrame());
    }
    const Timed timed = TimeEncoding();
    return encoder_->BeginFrame(delay);
  }

  absl::StatusOr<RowSource*> Upscale(RowSource& frame) {
    const Timed timed(request_.clock, stats_.infer);
    return upscaler_.Next(frame);
  }

  absl::Status Encode(RowSource& rows) {
    ImageSpec portion = encoded();
    portion.height_px = PortionRows(portion);
    Image buffer(portion);
    for (int left = encoded().height_px; left > 0; left -= portion.height_px) {
      portion.height_px = std::min(portion.height_px, left);
      const MutableImageView view =
          buffer.mutable_view().Crop({0, 0, portion.width_px, portion.height_px});
      {
        const Timed timed(request_.clock, stats_.infer);
        RETURN_IF_ERROR(rows.ReadRows(view));
      }
      {
        const Timed timed = TimeEncoding();
        RETURN_IF_ERROR(encoder_->WriteRows(view));
      }
      if (request_.on_rows) request_.on_rows();
    }
    return absl::OkStatus();
  }

  // The source's blocks as the result carries them. `earlier`: see MetadataForResult.
  ImageMetadata ResultMetadata(ImageMetadata metadata, bool too_late,
                               const ImageMetadata* earlier = nullptr) {
    const Size enlarged = plan_.upscale.source.size();
    ScaleSensorDensity(static_cast<double>(encoded().width_px) / enlarged.width,
                       static_cast<double>(encoded().height_px) / enlarged.height, metadata);
    return MetadataForResult(std::move(metadata), plan_.encode.metadata, plan_.encode.format,
                             encoded(), too_late, stats_.warnings, earlier);
  }

  absl::Status End() {
    const Timed timed = TimeEncoding();
    encoder_->AddLateMetadata(ResultMetadata(decoder_.late_metadata(),
                                             /*too_late=*/!HoldsLateMetadata(plan_.encode),
                                             &decoder_.metadata()));
    return encoder_->Finish();
  }

  const TranscodeRequest& request_;
  const TranscodePlan& plan_;
  ImageDecoder& decoder_;
  ByteSink& sink_;
  TranscodeStats& stats_;
  FrameUpscaler upscaler_;
  std::unique_ptr<ImageEncoder> encoder_;
};

// For an image of high dynamic range in a format without cICP.
absl::Status HdrRefusal(const ImageHeader& header, ImageFormat format) {
  std::vector<std::string> others;
  for (const ImageFormat other : kImageFormats)
    if (CanEncode(other) && HoldsCicp(other)) others.emplace_back(FormatName(other));
  return absl::UnimplementedError(absl::StrCat(
      "the image is of high dynamic range (", ToAbsl(header.hdr), "), which ",
      ToAbsl(FormatName(format)), " cannot state; ask for ", Alternatives(std::move(others))));
}

}  // namespace

absl::StatusOr<TranscodePlan> PlanTranscode(const ImageHeader& header, UpscalePlan upscale,
                                            const EncodeOptions& encode) {
  const Rect whole{0, 0, header.spec.width_px, header.spec.height_px};
  return PlanTranscode(header, whole, std::move(upscale), encode);
}

absl::StatusOr<TranscodePlan> PlanTranscode(const ImageHeader& header, const Rect& part,
                                            UpscalePlan upscale, const EncodeOptions& encode) {
  if (!header.hdr.empty() && !HoldsCicp(encode.format)) return HdrRefusal(header, encode.format);
  const ImageSpec encoded = OutputSpecFor(encode.format, upscale.result);
  RETURN_IF_ERROR(CheckEncodable(encode.format, encoded));
  TranscodePlan plan;
  plan.crop = PlanCrop(header.spec, part);
  plan.convert = PlanConversion(upscale.result, encoded);
  plan.upscale = std::move(upscale);
  plan.encode = encode;
  plan.warnings = PlanWarnings(header, encode, encoded);
  const size_t portion = encoded.row_bytes() * static_cast<size_t>(PortionRows(encoded));
  // The beginning of the file is held here to be read again, and by the decoder as it reads it. The
  // metadata are held here, as the result's, and by the encoder, since it copies them into the
  // file.
  const size_t metadata = header.prefix_bytes + 4 * header.metadata_bytes;
  plan.memory_bytes = header.decoder_bytes + metadata + plan.crop.memory_bytes +
                      plan.upscale.memory_bytes + plan.convert.memory_bytes + portion +
                      EncoderBytes(encode, encoded) +
                      FrameUpscaler::Bytes(plan.upscale, plan.frames());
  return plan;
}

absl::StatusOr<TranscodeStats> TranscodeImage(const TranscodeRequest& request,
                                              const TranscodePlanFn& plan_for) {
  TranscodeStats stats;
  TimedSource input(request, stats);
  std::vector<uint8_t> prefix;  // bytes of the input that are read already
  ImageHeader header;
  if (request.header == nullptr) {
    ASSIGN_OR_RETURN(header, ReadImageHeader(input, request.limits, prefix));
  } else {
    header = *request.header;
  }
  ASSIGN_OR_RETURN(const TranscodePlan plan, plan_for(header));

  const absl::Duration header_read = stats.read;
  ReplaySource replay(std::move(prefix), input);
  std::unique_ptr<ImageDecoder> decoder;
  {
    const Timed timed(request.clock, stats.decode, &stats.decoding);
    ASSIGN_OR_RETURN(
        decoder, request.open ? request.open(header, replay, request.limits, request.cancellation)
                              : OpenImageDecoder(replay, request.limits, request.cancellation));
  }
  if (decoder->spec() != plan.crop.source || decoder->header().animation != plan.encode.animation) {
    return absl::InternalError("the image differs from the one that was planned for");
  }
  const absl::Duration opening = stats.decode;

  TimedSink output(request, stats);
  RETURN_IF_ERROR(FrameRun(request, plan, *decoder, output, stats).Run());
  std::ranges::copy(decoder->warnings(), std::back_inserter(stats.warnings));

  // Each was measured with its callees: rows were decoded on demand of the upscaler, bytes read on
  // demand of the decoder and written by the encoder.
  stats.infer -= stats.decode - opening;
  stats.decode -= stats.read - header_read;
  stats.encode -= stats.write;
  return stats;
}

}  // namespace upscaled
