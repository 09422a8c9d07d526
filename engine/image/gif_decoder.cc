// The first frame of a GIF by giflib; the rest of the file is walked to count the others.
#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <gif_lib.h>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/image/buffered_source.h"
#include "engine/image/codec_list.h"
#include "engine/image/gif_header.h"
#include "engine/image/utf8.h"
#include "engine/image/whole_image.h"

namespace upscaled {
namespace {

struct CloseGif {
  void operator()(GifFileType* file) const { DGifCloseFile(file, nullptr); }
};

class GifReader final : public WholeImage {
 public:
  GifReader(std::unique_ptr<ReplaySource> source, GifLayout layout, const ImageSpec& spec,
            const DecodeLimits& limits, const Cancellation* cancellation)
      : WholeImage(spec, limits.fill_damage),
        layout_(std::move(layout)),
        source_(std::move(source), cancellation) {
    metadata.icc_profile = std::move(layout_.icc_profile);
    metadata.xmp = std::move(layout_.xmp);
    for (const std::string& comment : layout_.comments)
      metadata.texts.push_back({.keyword = "Comment", .text = ToUtf8(comment)});
  }

 private:
  using Colours = std::array<uint8_t, 4 * 256>;  // RGBA by index

  static int OnRead(GifFileType* file, GifByteType* dst, int count) {
    return static_cast<GifReader*>(file->UserData)->Give(dst, count);
  }
  int Give(uint8_t* dst, int count) {
    const absl::StatusOr<size_t> got = source_.Read({dst, static_cast<size_t>(count)});
    source_status_.Update(got.status());
    return static_cast<int>(got.value_or(0));
  }

  absl::Status Decode(MutableImageView image) override;
  // Goes on to the descriptor of the first image.
  absl::Status FindImage(GifFileType& file);
  Colours ColoursOf(const GifFileType& file) const;
  absl::Status DecodeFrame(GifFileType& file, MutableImageView frame);
  // Counts the frames behind the first one.
  absl::Status CountFrames();
  absl::StatusOr<bool> SkipSubBlocks();
  absl::Status Fault(int code) const;

  GifLayout layout_;
  BufferedSource source_;
  absl::Status source_status_;
};

absl::Status GifReader::Fault(int code) const {
  RETURN_IF_ERROR(source_status_);
  if (code == D_GIF_ERR_NOT_ENOUGH_MEM) return absl::ResourceExhaustedError("GIF: no memory");
  const char* const text = GifErrorString(code);
  return absl::InvalidArgumentError(
      absl::StrCat("GIF: the data are corrupt or truncated (", text == nullptr ? "?" : text, ")"));
}

absl::Status GifReader::Decode(MutableImageView image) {
  int error = 0;
  const std::unique_ptr<GifFileType, CloseGif> file(DGifOpen(this, OnRead, &error));
  if (file == nullptr) return Fault(error);
  RETURN_IF_ERROR(FindImage(*file));
  for (int y = 0; y < image.height_px(); ++y) std::memset(image.row(y), 0, spec().row_bytes());
  RETURN_IF_ERROR(DecodeFrame(*file, image.Crop(layout_.frame)));
  return CountFrames();
}

absl::Status GifReader::FindImage(GifFileType& file) {
  while (true) {
    GifRecordType type;
    if (DGifGetRecordType(&file, &type) == GIF_ERROR) return Fault(file.Error);
    if (type == IMAGE_DESC_RECORD_TYPE) break;
    int code;
    GifByteType* block = nullptr;
    if (type != EXTENSION_RECORD_TYPE || DGifGetExtension(&file, &code, &block) == GIF_ERROR)
      return Fault(file.Error);
    while (block != nullptr)
      if (DGifGetExtensionNext(&file, &block) == GIF_ERROR) return Fault(file.Error);
  }
  if (DGifGetImageDesc(&file) == GIF_ERROR) return Fault(file.Error);
  return absl::OkStatus();
}

// Indices beyond the table are black.
GifReader::Colours GifReader::ColoursOf(const GifFileType& file) const {
  Colours colours = {};
  const ColorMapObject* const map =
      file.Image.ColorMap != nullptr ? file.Image.ColorMap : file.SColorMap;
  for (int i = 0; i < 256; ++i) {
    uint8_t* const rgba = &colours[4 * i];
    if (map != nullptr && i < map->ColorCount) {
      const GifColorType& colour = map->Colors[i];
      rgba[0] = colour.Red;
      rgba[1] = colour.Green;
      rgba[2] = colour.Blue;
    }
    rgba[3] = UINT8_MAX;
  }
  // As PNG has them, colours of clear pixels stay.
  if (layout_.transparent_index.has_value()) colours[4 * *layout_.transparent_index + 3] = 0;
  return colours;
}

absl::Status GifReader::DecodeFrame(GifFileType& file, MutableImageView frame) {
  struct Pass {
    int first, step;
  };
  constexpr Pass kInterlaced[] = {{0, 8}, {4, 8}, {2, 4}, {1, 2}}, kPlain[] = {{0, 1}};
  const Colours colours = ColoursOf(file);
  std::vector<uint8_t> indices(frame.width_px());
  const size_t channels = spec().channels;
  int rows_read = 0;
  for (const Pass& pass :
       file.Image.Interlace ? std::span<const Pass>(kInterlaced) : std::span<const Pass>(kPlain)) {
    for (int y = pass.first; y < frame.height_px(); y += pass.step, ++rows_read) {
      if (DGifGetLine(&file, indices.data(), frame.width_px()) == GIF_ERROR) {
        RETURN_IF_ERROR(source_status_);
        const std::string why(Fault(file.Error).message());
        // Those that lack lie between the others in an interlaced image, which is lost as a whole.
        return LackRows(frame, file.Image.Interlace ? 0 : rows_read, frame.height_px(), why);
      }
      uint8_t* dst = frame.row(y);
      for (const uint8_t index : indices) {
        std::memcpy(dst, &colours[4 * index], channels);
        dst += channels;
      }
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> GifReader::SkipSubBlocks() {
  while (true) {
    ASSIGN_OR_RETURN(const std::optional<uint8_t> length, source_.ReadByte());
    if (!length.has_value()) return false;
    if (*length == 0) return true;
    ASSIGN_OR_RETURN(const bool skipped, source_.Skip(*length));
    if (!skipped) return false;
  }
}

absl::Status GifReader::CountFrames() {
  constexpr uint8_t kExtension = 0x21, kImage = 0x2C, kTrailer = 0x3B, kHasTable = 0x80;
  int64_t others = 0;
  bool whole = true;
  while (whole) {
    ASSIGN_OR_RETURN(const std::optional<uint8_t> kind, source_.ReadByte());
    if (kind == kTrailer) break;
    whole = kind == kExtension || kind == kImage;
    if (!whole) break;
    size_t before_blocks = 1;  // the label, or the size of codes
    if (kind == kImage) {
      ++others;
      uint8_t descriptor[9];
      ASSIGN_OR_RETURN(const size_t count, source_.Read(descriptor));
      const uint8_t flags = count == sizeof(descriptor) ? descriptor[8] : 0;
      if ((flags & kHasTable) != 0) before_blocks += size_t{3} << ((flags & 7) + 1);
    }
    ASSIGN_OR_RETURN(whole, source_.Skip(before_blocks));
    if (whole) {
      ASSIGN_OR_RETURN(whole, SkipSubBlocks());
    }
  }
  if (!whole) warnings.push_back("GIF: the file's end is missing or damaged; all pixels were read");
  if (others > 0)
    warnings.push_back(absl::StrCat("GIF: it is an animation of ", others + 1,
                                    " frames: the first is computed, ", others, " left out"));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<ImageDecoder>> OpenGifDecoder(std::unique_ptr<ReplaySource> source,
                                                             const ImageHeader& header,
                                                             const DecodeLimits& limits,
                                                             const Cancellation* cancellation) {
  ASSIGN_OR_RETURN(std::optional<GifLayout> layout, ParseGifLayout(source->prefix(), limits));
  if (!layout.has_value()) return absl::InternalError("GIF: the header was read from more bytes");
  return MakeDecoder(header, std::make_unique<GifReader>(std::move(source), *std::move(layout),
                                                         header.spec, limits, cancellation));
}

}  // namespace upscaled
