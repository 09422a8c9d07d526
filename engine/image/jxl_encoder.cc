// JPEG XL by libjxl, on one thread.
#include <jxl/encode.h>

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/image/codec_list.h"
#include "engine/image/colour_profile.h"
#include "engine/image/jxl_colours.h"
#include "engine/image/memory_io.h"
#include "engine/image/whole_image_encoder.h"

namespace upscaled {
namespace {

constexpr int kLosslessJxlQuality = 100;
// On a scale from 1 (fast) to 9. For lossy files, effort 3 takes two thirds of the time, for 5 %
// more bytes and 0.5 to 1.2 dB less.
constexpr int kLossyJxlEffort = 7, kLosslessJxlEffort = 3;

// The distance of a JPEG quality as cjxl has it: 90 is 1, a hardly visible loss.
float JxlDistance(int quality) {
  const auto q = static_cast<float>(quality);
  return quality >= 30 ? 0.1F + (100 - q) * 0.09F : 53.0F / 3000 * q * q - 23.0F / 20 * q + 25;
}

struct DestroyJxlEncoder {
  void operator()(JxlEncoder* encoder) const { JxlEncoderDestroy(encoder); }
};

class JxlWriter final : public WholeImageEncoder {
 public:
  JxlWriter(const ImageSpec& spec, int quality, const ImageMetadata& metadata, ByteSink& sink,
            const Cancellation* cancellation)
      : WholeImageEncoder(spec, metadata, sink, cancellation), quality_(quality) {}

 private:
  bool lossless() const { return quality_ == kLosslessJxlQuality; }

  // Each false: the library refused.
  bool SetInfo();
  bool SetColours();
  bool AddBoxes();
  bool AddImage();
  absl::Status WriteOutput();

  absl::Status Encode() override;

  const int quality_;
  std::unique_ptr<JxlEncoder, DestroyJxlEncoder> encoder_;
};

bool JxlWriter::SetInfo() {
  const ImageSpec& spec = image_.spec();
  JxlBasicInfo info;
  JxlEncoderInitBasicInfo(&info);
  info.xsize = static_cast<uint32_t>(spec.width_px);
  info.ysize = static_cast<uint32_t>(spec.height_px);
  info.bits_per_sample = static_cast<uint32_t>(8 * SampleBytes(spec.type));
  info.num_color_channels = gray() ? 1 : kRgbChannels;
  info.num_extra_channels = spec.has_alpha() ? 1 : 0;
  info.alpha_bits = spec.has_alpha() ? info.bits_per_sample : 0;
  info.uses_original_profile = lossless() ? JXL_TRUE : JXL_FALSE;
  return JxlEncoderSetBasicInfo(encoder_.get(), &info) == JXL_ENC_SUCCESS;
}

bool JxlWriter::SetColours() {
  const auto cicp = std::ranges::find(metadata_.colour_chunks, "cICP", &ColourChunk::type);
  if (cicp != metadata_.colour_chunks.end()) {
    const std::optional<JxlColorEncoding> encoding = EncodingOfCicp(cicp->data, gray());
    if (encoding.has_value())
      return JxlEncoderSetColorEncoding(encoder_.get(), &*encoding) == JXL_ENC_SUCCESS;
    metadata_.icc_profile = ProfileOf(metadata_.colour_chunks, metadata_.icc_profile, gray());
  }
  const std::string& profile = metadata_.icc_profile;
  if (!profile.empty() && DescribesSamples(profile, gray()) &&
      JxlEncoderSetICCProfile(encoder_.get(), AsBytes(profile).data(), profile.size()) ==
          JXL_ENC_SUCCESS)
    return true;
  JxlColorEncoding srgb;
  JxlColorEncodingSetToSRGB(&srgb, gray());
  return JxlEncoderSetColorEncoding(encoder_.get(), &srgb) == JXL_ENC_SUCCESS;
}

bool JxlWriter::AddBoxes() {
  const std::string no_offset(4, '\0');
  const std::pair<const char*, std::string> boxes[] = {
      {"Exif", metadata_.exif.empty() ? "" : no_offset + metadata_.exif}, {"xml ", metadata_.xmp}};
  for (const auto& [type, content] : boxes) {
    if (content.empty()) continue;
    JxlEncoderUseBoxes(encoder_.get());
    if (JxlEncoderAddBox(encoder_.get(), type, AsBytes(content).data(), content.size(),
                         JXL_FALSE) != JXL_ENC_SUCCESS)
      return false;
  }
  JxlEncoderCloseBoxes(encoder_.get());
  return true;
}

bool JxlWriter::AddImage() {
  JxlEncoderFrameSettings* const settings = JxlEncoderFrameSettingsCreate(encoder_.get(), nullptr);
  // From the distance 4.5 on libjxl 0.7 gives images of more than 2048 px a frame of its own for
  // their DC. It ends the process over those that are up to 8, or 17 to 24, px wide.
  constexpr int kThinPx = 64, kNoDcFrame = 0, kDcFrameIfLarge = -1;
  if (settings == nullptr ||
      JxlEncoderFrameSettingsSetOption(settings, JXL_ENC_FRAME_SETTING_EFFORT,
                                       lossless() ? kLosslessJxlEffort : kLossyJxlEffort) !=
          JXL_ENC_SUCCESS ||
      JxlEncoderFrameSettingsSetOption(
          settings, JXL_ENC_FRAME_SETTING_PROGRESSIVE_DC,
          image_.spec().width_px < kThinPx ? kNoDcFrame : kDcFrameIfLarge) != JXL_ENC_SUCCESS ||
      (lossless() ? JxlEncoderSetFrameLossless(settings, JXL_TRUE)
                  : JxlEncoderSetFrameDistance(settings, JxlDistance(quality_))) != JXL_ENC_SUCCESS)
    return false;
  const ImageSpec& spec = image_.spec();
  const JxlPixelFormat format = {static_cast<uint32_t>(spec.channels),
                                 spec.type == SampleType::kU8 ? JXL_TYPE_UINT8 : JXL_TYPE_UINT16,
                                 JXL_NATIVE_ENDIAN, 0};
  const bool added = JxlEncoderAddImageFrame(settings, &format, image_.view().data,
                                             spec.row_bytes() * spec.height_px) == JXL_ENC_SUCCESS;
  image_ = Image();
  JxlEncoderCloseInput(encoder_.get());
  return added;
}

absl::Status JxlWriter::WriteOutput() {
  std::vector<uint8_t> buffer(size_t{64} << 10);
  JxlEncoderStatus status = JXL_ENC_NEED_MORE_OUTPUT;
  while (status == JXL_ENC_NEED_MORE_OUTPUT) {
    uint8_t* next = buffer.data();
    size_t room = buffer.size();
    status = JxlEncoderProcessOutput(encoder_.get(), &next, &room);
    RETURN_IF_ERROR(sink_.Write(std::span(buffer).first(buffer.size() - room)));
  }
  if (status == JXL_ENC_SUCCESS) return absl::OkStatus();
  return absl::ResourceExhaustedError("JPEG XL: the image cannot be encoded");
}

absl::Status JxlWriter::Encode() {
  encoder_.reset(JxlEncoderCreate(nullptr));
  if (encoder_ == nullptr) return absl::ResourceExhaustedError("JPEG XL: no memory");
  if (!SetInfo() || !SetColours() || !AddBoxes() || !AddImage())
    return absl::ResourceExhaustedError(absl::StrCat("JPEG XL: the image cannot be encoded (error ",
                                                     JxlEncoderGetError(encoder_.get()), ")"));
  return WriteOutput();
}

}  // namespace

size_t JxlEncoderBytes(const EncodeOptions&, const ImageSpec& spec) {
  // Measured with libjxl 0.7.
  constexpr size_t kLibraryBytes = size_t{64} << 20, kBytesPerPixel = 180;
  return kLibraryBytes + kBytesPerPixel * static_cast<size_t>(spec.size().Area());
}

absl::StatusOr<std::unique_ptr<ImageEncoder>> CreateJxlEncoder(const EncodeOptions& options,
                                                               const ImageSpec& spec,
                                                               const ImageMetadata& metadata,
                                                               ByteSink& sink,
                                                               const Cancellation* cancellation) {
  return std::make_unique<JxlWriter>(spec, options.quality, metadata, sink, cancellation);
}

}  // namespace upscaled
