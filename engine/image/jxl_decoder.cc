// JPEG XL by libjxl, on the caller's thread: the cage allows no others.
#include <jxl/decode.h>
#include <jxl/encode.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/image/buffered_source.h"
#include "engine/image/codec_list.h"
#include "engine/image/endian.h"
#include "engine/image/exif.h"
#include "engine/image/jxl_colours.h"
#include "engine/image/jxl_header.h"
#include "engine/image/left_out.h"
#include "engine/image/memory_io.h"
#include "engine/image/premultiplied.h"
#include "engine/image/whole_image.h"
#include "engine/image/xmp.h"

namespace upscaled {
namespace {

struct DestroyJxlDecoder {
  void operator()(JxlDecoder* decoder) const { JxlDecoderDestroy(decoder); }
};

class JxlReader final : public WholeImage {
 public:
  JxlReader(std::unique_ptr<ReplaySource> source, const ImageSpec& spec, const DecodeLimits& limits,
            const Cancellation* cancellation)
      : WholeImage(spec, limits.fill_damage),
        max_metadata_bytes_(limits.max_metadata_bytes),
        warns_of_frames_(limits.warns_of_frames),
        source_(std::move(source), cancellation) {}

  // Metadata may stand behind the pixels, and results want them before. The library turns the image
  // by `orientation`, and leaves EXIF and XMP as they are.
  absl::Status Start(Orientation orientation) {
    RETURN_IF_ERROR(DecodeNow());
    TurnDensity(orientation, metadata);
    return absl::OkStatus();
  }

 private:
  absl::Status Decode(MutableImageView image) override;
  absl::Status Run(MutableImageView image);
  // Gives the library more of the file. false: it has no more.
  absl::StatusOr<bool> Feed();
  // Once the library is done: boxes it reads up to the file's end, a bare image not.
  absl::Status NameBytesBehind();
  absl::Status ReadInfo();
  void ReadColours();
  void BeginBox();
  void GrowBox();
  void EndBox();
  // Divides colours multiplied by alpha.
  void DivideImage(MutableImageView image) const;

  JxlPixelFormat Format() const {
    return {static_cast<uint32_t>(spec().channels),
            spec().type == SampleType::kU8 ? JXL_TYPE_UINT8 : JXL_TYPE_UINT16, JXL_NATIVE_ENDIAN,
            0};
  }

  const size_t max_metadata_bytes_;
  const bool warns_of_frames_;
  BufferedSource source_;
  std::unique_ptr<JxlDecoder, DestroyJxlDecoder> decoder_;
  std::vector<uint8_t> input_;  // that the library has
  bool input_ended_ = false;
  std::string box_;                    // as far as it is read
  std::string* box_target_ = nullptr;  // null: the box is passed over
  bool box_is_exif_ = false;
  size_t box_bytes_ = 0;  // of all boxes that are kept
  LeftOut left_out_;      // boxes
  int frames_ = 0;
  bool has_pixels_ = false;
  bool premultiplied_ = false;
  bool has_own_colours_ = true;  // coded as they came, and not as XYB
};

absl::StatusOr<bool> JxlReader::Feed() {
  constexpr size_t kPieceBytes = size_t{64} << 10;
  if (input_ended_) return false;
  const size_t rest = JxlDecoderReleaseInput(decoder_.get());
  input_.erase(input_.begin(), input_.end() - static_cast<ptrdiff_t>(rest));
  input_.resize(rest + kPieceBytes);
  ASSIGN_OR_RETURN(const size_t count, source_.Read(std::span(input_).subspan(rest)));
  input_.resize(rest + count);
  input_ended_ = count == 0;
  JxlDecoderSetInput(decoder_.get(), input_.data(), input_.size());
  if (input_ended_) JxlDecoderCloseInput(decoder_.get());
  return true;
}

absl::Status JxlReader::NameBytesBehind() {
  bool has_more = JxlDecoderReleaseInput(decoder_.get()) > 0;
  if (!has_more && !input_ended_) {
    uint8_t next = 0;
    ASSIGN_OR_RETURN(const size_t count, source_.Read({&next, 1}));
    has_more = count > 0;
  }
  if (has_more) warnings.push_back("JPEG XL: bytes behind the image's end are left out");
  return absl::OkStatus();
}

absl::Status JxlReader::ReadInfo() {
  JxlBasicInfo info;
  if (JxlDecoderGetBasicInfo(decoder_.get(), &info) != JXL_DEC_SUCCESS)
    return absl::InternalError("JPEG XL: no basic information");
  const bool gray = info.num_color_channels == 1, alpha = info.alpha_bits > 0;
  if (info.xsize != static_cast<uint32_t>(spec().width_px) ||
      info.ysize != static_cast<uint32_t>(spec().height_px) ||
      gray != (spec().channels < kRgbChannels) || alpha != spec().has_alpha())
    return absl::InvalidArgumentError(absl::StrCat(
        "JPEG XL: the image is ", info.xsize, " x ", info.ysize, " px, ",
        gray ? "gray" : "in colour", alpha ? " with alpha" : "", "; the header says otherwise"));
  premultiplied_ = info.alpha_premultiplied != JXL_FALSE;
  has_own_colours_ = info.uses_original_profile != JXL_FALSE;
  return absl::OkStatus();
}

void JxlReader::ReadColours() {
  const JxlPixelFormat format = Format();
  JxlColorEncoding encoding;
  // Without a colour engine the library cannot give the colours of a profile for lossy images.
  const bool is_stated =
      JxlDecoderGetColorAsEncodedProfile(decoder_.get(), &format, JXL_COLOR_PROFILE_TARGET_ORIGINAL,
                                         &encoding) == JXL_DEC_SUCCESS;
  if (!is_stated && !has_own_colours_) {
    JxlColorEncodingSetToSRGB(&encoding, spec().channels < kRgbChannels);
    JxlDecoderSetPreferredColorProfile(decoder_.get(), &encoding);
    warnings.push_back("JPEG XL: the colours become sRGB; the file's profile is not kept");
  }
  if (JxlDecoderGetColorAsEncodedProfile(decoder_.get(), &format, JXL_COLOR_PROFILE_TARGET_DATA,
                                         &encoding) == JXL_DEC_SUCCESS) {
    const std::optional<std::string> cicp = CicpOf(encoding);
    if (cicp.has_value()) {
      if (!cicp->empty()) metadata.colour_chunks = {{.type = "cICP", .data = *cicp}};
      return;
    }
  }
  size_t bytes = 0;
  if (JxlDecoderGetICCProfileSize(decoder_.get(), &format, JXL_COLOR_PROFILE_TARGET_DATA, &bytes) !=
          JXL_DEC_SUCCESS ||
      bytes > max_metadata_bytes_) {
    warnings.push_back(absl::StrCat("JPEG XL: the colour profile has ", bytes,
                                    " bytes and is left out; the limit is ", max_metadata_bytes_));
    return;
  }
  metadata.icc_profile.resize(bytes);
  JxlDecoderGetColorAsICCProfile(decoder_.get(), &format, JXL_COLOR_PROFILE_TARGET_DATA,
                                 reinterpret_cast<uint8_t*>(metadata.icc_profile.data()), bytes);
}

void JxlReader::BeginBox() {
  EndBox();
  JxlBoxType type;
  if (JxlDecoderGetBoxType(decoder_.get(), type, JXL_TRUE) != JXL_DEC_SUCCESS) return;
  box_is_exif_ = std::equal(type, type + 4, "Exif");
  const bool is_xmp = std::equal(type, type + 4, "xml ");
  box_target_ = box_is_exif_ ? &metadata.exif : is_xmp ? &metadata.xmp : nullptr;
  if (box_target_ != nullptr && !box_target_->empty()) box_target_ = nullptr;  // the first counts
  constexpr std::string_view kImage[] = {"JXL ", "ftyp", "jxlc", "jxlp", "jxll", "jxli", "jbrd"};
  const std::string_view name(type, 4);
  if (box_target_ != nullptr)
    GrowBox();
  else if (std::ranges::count(kImage, name) == 0)
    left_out_.Add(name);
}

// Makes room for more of a box: it does not tell its inflated size.
void JxlReader::GrowBox() {
  constexpr size_t kFirstBytes = size_t{16} << 10;
  const size_t filled = box_.empty() ? 0 : box_.size() - JxlDecoderReleaseBoxBuffer(decoder_.get());
  const size_t room = max_metadata_bytes_ - box_bytes_;
  if (filled >= room) {
    warnings.push_back(absl::StrCat("JPEG XL: ", box_is_exif_ ? "EXIF" : "XMP",
                                    " is left out; the limit on metadata is ",
                                    max_metadata_bytes_));
    box_.clear();
    box_target_ = nullptr;
    return;
  }
  box_.resize(std::min(room, std::max(2 * filled, kFirstBytes)));
  JxlDecoderSetBoxBuffer(decoder_.get(), reinterpret_cast<uint8_t*>(box_.data()) + filled,
                         box_.size() - filled);
}

void JxlReader::EndBox() {
  if (box_target_ == nullptr) return;
  box_.resize(box_.size() - JxlDecoderReleaseBoxBuffer(decoder_.get()));
  box_bytes_ += box_.size();
  // EXIF begins with the bytes before its TIFF header.
  constexpr size_t kOffsetBytes = 4;
  if (box_is_exif_ && box_.size() > kOffsetBytes) {
    const uint64_t begin = uint64_t{kOffsetBytes} + LoadBe32(AsBytes(box_).data());
    box_ = begin < box_.size() ? WithoutExifBegin(std::string_view(box_).substr(begin)) : "";
  }
  if (!box_is_exif_) box_ = UprightXmp(box_);
  *box_target_ = std::exchange(box_, {});
  box_target_ = nullptr;
}

absl::Status JxlReader::Run(MutableImageView image) {
  while (true) {
    switch (const JxlDecoderStatus event = JxlDecoderProcessInput(decoder_.get())) {
      case JXL_DEC_SUCCESS:
        return NameBytesBehind();
      case JXL_DEC_NEED_MORE_INPUT: {
        ASSIGN_OR_RETURN(const bool fed, Feed());
        if (!fed) return absl::InvalidArgumentError("JPEG XL: the file is truncated");
        break;
      }
      case JXL_DEC_BASIC_INFO:
        RETURN_IF_ERROR(ReadInfo());
        break;
      case JXL_DEC_COLOR_ENCODING:
        ReadColours();
        break;
      case JXL_DEC_BOX:
        BeginBox();
        break;
      case JXL_DEC_BOX_NEED_MORE_OUTPUT:
        GrowBox();
        break;
      case JXL_DEC_FRAME:
        ++frames_;
        break;
      case JXL_DEC_NEED_IMAGE_OUT_BUFFER: {
        if (frames_ > 1) {
          JxlDecoderSkipCurrentFrame(decoder_.get());
          break;
        }
        const JxlPixelFormat format = Format();
        if (JxlDecoderSetImageOutBuffer(decoder_.get(), &format, image.data,
                                        image.spec.row_bytes() * image.height_px()) !=
            JXL_DEC_SUCCESS)
          return absl::InvalidArgumentError("JPEG XL: the image cannot be given in its format");
        break;
      }
      case JXL_DEC_FULL_IMAGE:
        has_pixels_ = true;
        break;
      case JXL_DEC_ERROR:
        return absl::InvalidArgumentError("JPEG XL: the data are corrupt or truncated");
      default:
        return absl::InternalError(absl::StrCat("JPEG XL: event ", event, " was not asked for"));
    }
  }
}

void JxlReader::DivideImage(MutableImageView image) const {
  const int channels = spec().channels;
  for (int y = 0; y < image.height_px(); ++y)
    for (int i = 0; i < image.width_px() * channels; i += channels) {
      if (spec().type == SampleType::kU8)
        DivideByAlpha(channels, image.row(y) + i);
      else
        DivideByAlpha(channels, image.row_as<uint16_t>(y) + i);
    }
}

absl::Status JxlReader::Decode(MutableImageView image) {
  decoder_.reset(JxlDecoderCreate(nullptr));
  if (decoder_ == nullptr ||
      JxlDecoderSubscribeEvents(decoder_.get(), JXL_DEC_BASIC_INFO | JXL_DEC_COLOR_ENCODING |
                                                    JXL_DEC_BOX | JXL_DEC_FRAME |
                                                    JXL_DEC_FULL_IMAGE) != JXL_DEC_SUCCESS)
    return absl::ResourceExhaustedError("JPEG XL: no memory");
  JxlDecoderSetDecompressBoxes(decoder_.get(), JXL_TRUE);
  const absl::Status status = Run(image);
  EndBox();
  if (!left_out_.empty())
    warnings.push_back(absl::StrCat("JPEG XL: boxes are left out: ", left_out_.Names()));
  decoder_.reset();
  input_ = {};
  if (!status.ok() && !has_pixels_) {
    if (!absl::IsInvalidArgument(status)) return status;
    return LackRows(image, 0, image.height_px(), std::string(status.message()));
  }
  if (premultiplied_) DivideImage(image);
  if (!status.ok()) {
    if (!absl::IsInvalidArgument(status)) return status;  // cancelled, or the source's
    warnings.push_back("JPEG XL: the file's end is missing or damaged; all pixels were read");
  }
  if (frames_ > 1 && warns_of_frames_)
    warnings.push_back(absl::StrCat("JPEG XL: it is an animation of ", frames_,
                                    " frames: the first is computed, ", frames_ - 1, " left out"));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<ImageDecoder>> OpenJxlDecoder(std::unique_ptr<ReplaySource> source,
                                                             const ImageHeader& header,
                                                             const DecodeLimits& limits,
                                                             const Cancellation* cancellation) {
  ASSIGN_OR_RETURN(const std::optional<JxlLayout> layout, ParseJxlLayout(source->prefix(), limits));
  if (!layout.has_value())
    return absl::InternalError("JPEG XL: the header was read from more bytes");
  auto reader = std::make_unique<JxlReader>(std::move(source), header.spec, limits, cancellation);
  RETURN_IF_ERROR(reader->Start(layout->orientation));
  return MakeDecoder(header, std::move(reader));
}

}  // namespace upscaled
