// The frames of a GIF by giflib.
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
#include "engine/image/frame_canvas.h"
#include "engine/image/gif_header.h"
#include "engine/image/utf8.h"
#include "engine/image/whole_image.h"

namespace upscaled {
namespace {

constexpr char kBrokenGifEnd[] = "GIF: the file's end is missing or damaged; all pixels were read";

struct CloseGif {
  void operator()(GifFileType* file) const { DGifCloseFile(file, nullptr); }
};

using GifColours = std::array<uint8_t, 4 * 256>;  // RGBA by index

// One image of a file, by giflib.
class GifImageReader {
 public:
  explicit GifImageReader(BufferedSource& source) : source_(source) {}

  // Goes on to the descriptor of the first image.
  absl::Status Open();
  GifColours ColoursOf(std::optional<uint8_t> transparent_index) const;
  bool interlaced() const { return file_->Image.Interlace; }

  // Calls `draw(y, indices)` for each row, in the order of the file; `rows_read` counts them.
  template <typename Draw>
  absl::Status ReadRows(Size size, int& rows_read, Draw draw);

 private:
  static int OnRead(GifFileType* file, GifByteType* dst, int count) {
    return static_cast<GifImageReader*>(file->UserData)->Give(dst, count);
  }
  int Give(uint8_t* dst, int count) {
    const absl::StatusOr<size_t> got = source_.Read({dst, static_cast<size_t>(count)});
    source_status_.Update(got.status());
    return static_cast<int>(got.value_or(0));
  }
  absl::Status Fault(int code) const;

  BufferedSource& source_;
  absl::Status source_status_;
  std::unique_ptr<GifFileType, CloseGif> file_;
};

absl::Status GifImageReader::Fault(int code) const {
  RETURN_IF_ERROR(source_status_);
  if (code == D_GIF_ERR_NOT_ENOUGH_MEM) return absl::ResourceExhaustedError("GIF: no memory");
  const char* const text = GifErrorString(code);
  return absl::InvalidArgumentError(
      absl::StrCat("GIF: the data are corrupt or truncated (", text == nullptr ? "?" : text, ")"));
}

absl::Status GifImageReader::Open() {
  int error = 0;
  file_.reset(DGifOpen(this, OnRead, &error));
  if (file_ == nullptr) return Fault(error);
  while (true) {
    GifRecordType type;
    if (DGifGetRecordType(file_.get(), &type) == GIF_ERROR) return Fault(file_->Error);
    if (type == IMAGE_DESC_RECORD_TYPE) break;
    int code;
    GifByteType* block = nullptr;
    if (type != EXTENSION_RECORD_TYPE || DGifGetExtension(file_.get(), &code, &block) == GIF_ERROR)
      return Fault(file_->Error);
    while (block != nullptr)
      if (DGifGetExtensionNext(file_.get(), &block) == GIF_ERROR) return Fault(file_->Error);
  }
  if (DGifGetImageDesc(file_.get()) == GIF_ERROR) return Fault(file_->Error);
  return absl::OkStatus();
}

// Indices beyond the table are black.
GifColours GifImageReader::ColoursOf(std::optional<uint8_t> transparent_index) const {
  GifColours colours = {};
  const ColorMapObject* const map =
      file_->Image.ColorMap != nullptr ? file_->Image.ColorMap : file_->SColorMap;
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
  if (transparent_index.has_value()) colours[4 * *transparent_index + 3] = 0;
  return colours;
}

template <typename Draw>
absl::Status GifImageReader::ReadRows(Size size, int& rows_read, Draw draw) {
  struct Pass {
    int first, step;
  };
  constexpr Pass kInterlaced[] = {{0, 8}, {4, 8}, {2, 4}, {1, 2}}, kPlain[] = {{0, 1}};
  std::vector<uint8_t> indices(size.width);
  for (const Pass& pass :
       interlaced() ? std::span<const Pass>(kInterlaced) : std::span<const Pass>(kPlain)) {
    for (int y = pass.first; y < size.height; y += pass.step, ++rows_read) {
      if (DGifGetLine(file_.get(), indices.data(), size.width) == GIF_ERROR)
        return Fault(file_->Error);
      draw(y, std::span<const uint8_t>(indices));
    }
  }
  return absl::OkStatus();
}

// The first frame of a file as it streams by; the rest is walked to count the others.
class GifReader final : public WholeImage {
 public:
  GifReader(std::unique_ptr<ReplaySource> source, GifLayout layout, const ImageSpec& spec,
            const DecodeLimits& limits, const Cancellation* cancellation)
      : WholeImage(spec, limits.fill_damage),
        warns_of_frames_(limits.warns_of_frames),
        layout_(std::move(layout)),
        source_(std::move(source), cancellation) {
    metadata = MetadataOf(layout_);
  }

  static ImageMetadata MetadataOf(GifLayout& layout) {
    ImageMetadata metadata;
    metadata.icc_profile = std::move(layout.icc_profile);
    metadata.xmp = std::move(layout.xmp);
    for (const std::string& comment : layout.comments)
      metadata.texts.push_back({.keyword = "Comment", .text = ToUtf8(comment)});
    return metadata;
  }

 private:
  absl::Status Decode(MutableImageView image) override;
  absl::Status DecodeFrame(MutableImageView frame);
  // Counts the frames behind the first one.
  absl::Status CountFrames();
  absl::StatusOr<bool> SkipSubBlocks();

  const bool warns_of_frames_;
  GifLayout layout_;
  BufferedSource source_;
};

absl::Status GifReader::Decode(MutableImageView image) {
  for (int y = 0; y < image.height_px(); ++y) std::memset(image.row(y), 0, spec().row_bytes());
  RETURN_IF_ERROR(DecodeFrame(image.Crop(layout_.frames.front().rect)));
  return CountFrames();
}

absl::Status GifReader::DecodeFrame(MutableImageView frame) {
  GifImageReader reader(source_);
  RETURN_IF_ERROR(reader.Open());
  const GifColours colours = reader.ColoursOf(layout_.frames.front().transparent_index);
  const size_t channels = spec().channels;
  int rows_read = 0;
  const absl::Status status =
      reader.ReadRows(frame.spec.size(), rows_read, [&](int y, std::span<const uint8_t> indices) {
        uint8_t* dst = frame.row(y);
        for (const uint8_t index : indices) {
          std::memcpy(dst, &colours[4 * index], channels);
          dst += channels;
        }
      });
  if (!absl::IsInvalidArgument(status)) return status;
  // In an interlaced image missing rows lie between the others: it is lost as a whole.
  return LackRows(frame, reader.interlaced() ? 0 : rows_read, frame.height_px(), status.message());
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
  if (!whole) warnings.push_back(kBrokenGifEnd);
  if (others > 0 && warns_of_frames_)
    warnings.push_back(absl::StrCat("GIF: it is an animation of ", others + 1,
                                    " frames: the first is computed, ", others, " left out"));
  return absl::OkStatus();
}

// The bytes of one of a file's frames: its screen with the table, and the frame.
class GifFrameSource final : public ByteSource {
 public:
  GifFrameSource(std::span<const uint8_t> screen, std::span<const uint8_t> frame)
      : parts_{screen, frame} {}

  absl::StatusOr<size_t> Read(std::span<uint8_t> dst) override {
    std::span<const uint8_t>& part = parts_[0].empty() ? parts_[1] : parts_[0];
    const size_t count = std::min(dst.size(), part.size());
    std::copy_n(part.begin(), count, dst.begin());
    part = part.subspan(count);
    return count;
  }

 private:
  std::span<const uint8_t> parts_[2];
};

// All frames of a file in memory. Each is given to a giflib of its own. So giflib never collects
// read frames, and starts at the frame even if the one before is damaged.
class GifFrames final : public FrameReader {
 public:
  GifFrames(std::unique_ptr<ReplaySource> source, GifLayout layout, const DecodeLimits& limits,
            const Cancellation* cancellation)
      : source_(std::move(source)),
        layout_(std::move(layout)),
        fill_damage_(limits.fill_damage),
        cancellation_(cancellation) {
    metadata = GifReader::MetadataOf(layout_);
  }

  absl::StatusOr<StoredFrame> Next() override {
    const GifFrame& frame = layout_.frames[next_++];
    if (next_ == layout_.frames.size() && layout_.lacks_end) warnings.push_back(kBrokenGifEnd);
    return StoredFrame{Intersect(frame.rect, {0, 0, layout_.canvas.width, layout_.canvas.height}),
                       frame.delay, frame.disposal};
  }
  absl::Status Draw(MutableImageView place) override;

 private:
  const std::unique_ptr<ReplaySource> source_;  // whose prefix is the file
  GifLayout layout_;
  const bool fill_damage_;
  const Cancellation* const cancellation_;
  size_t next_ = 0;
};

// `place` may lack the right and the lower part of the frame, if these lie beyond the canvas.
absl::Status GifFrames::Draw(MutableImageView place) {
  const GifFrame& frame = layout_.frames[next_ - 1];
  const std::span<const uint8_t> file = source_->prefix();
  BufferedSource source(
      std::make_unique<GifFrameSource>(file.first(layout_.screen_bytes),
                                       file.subspan(frame.begin, frame.end - frame.begin)),
      cancellation_);
  GifImageReader reader(source);
  RETURN_IF_ERROR(reader.Open());
  const GifColours colours = reader.ColoursOf(frame.transparent_index);
  const size_t channels = place.spec.channels;
  // Below the first frame nothing shines through: colours of its clear pixels are kept.
  const bool replaces = next_ == 1;
  int rows_read = 0;
  const absl::Status status =
      reader.ReadRows(frame.rect.size(), rows_read, [&](int y, std::span<const uint8_t> indices) {
        if (y >= place.height_px()) return;
        uint8_t* dst = place.row(y);
        for (int x = 0; x < place.width_px(); ++x, dst += channels)
          if (replaces || indices[x] != frame.transparent_index)
            std::memcpy(dst, &colours[4 * indices[x]], channels);
      });
  if (!absl::IsInvalidArgument(status)) return status;
  const std::string sentence = absl::StrCat(status.message(), " in frame ", next_, "; ", rows_read,
                                            " of ", frame.rect.height, " rows were read");
  if (!fill_damage_) return absl::InvalidArgumentError(sentence);
  warnings.push_back(sentence + "; the others stay as they were");
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<ImageDecoder>> OpenGifDecoder(std::unique_ptr<ReplaySource> source,
                                                             const ImageHeader& header,
                                                             const DecodeLimits& limits,
                                                             const Cancellation* cancellation) {
  ASSIGN_OR_RETURN(std::optional<GifLayout> layout,
                   ParseGifLayout(source->prefix(), limits, /*is_whole=*/true));
  if (!layout.has_value()) return absl::InternalError("GIF: the header was read from more bytes");
  if (layout->frames.size() == 1)
    return MakeDecoder(header, std::make_unique<GifReader>(std::move(source), *std::move(layout),
                                                           header.spec, limits, cancellation));
  auto frames =
      std::make_unique<GifFrames>(std::move(source), *std::move(layout), limits, cancellation);
  return MakeCanvasDecoder(header, std::move(frames), limits, cancellation);
}

}  // namespace upscaled
