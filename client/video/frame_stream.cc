// Source: YUV4MPEG2 as mjpegtools' yuv4mpeg(5) and FFmpeg write it; Netpbm's ppm(5) and pgm(5).
#include "client/video/frame_stream.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "engine/base/status_macros.h"
#include "engine/image/codec.h"
#include "engine/image/endian.h"
#include "engine/image/memory_io.h"

namespace upscaled::client {
namespace {

constexpr absl::string_view kY4mMagic = "YUV4MPEG2", kPngMagic = "\x89PNG\r\n\x1a\n";
constexpr absl::string_view kOldChromaTag = "YSCSS=";  // of mjpegtools, behind an X
constexpr char kNoFrames[] = "the stream has no frames";
constexpr size_t kMaxHeaderBytes = 4096;
constexpr int kMaxSidePx = 65535;

// Bytes of a source with a look ahead.
class Bytes {
 public:
  Bytes(ImageSource& source, std::stop_token stop) : source_(source), stop_(std::move(stop)) {}

  // Reads until `count` bytes wait or the source has ended.
  absl::Status Await(size_t count) {
    while (waiting_.size() < count && !ended_) {
      std::array<char, size_t{256} << 10> part;
      const size_t want = std::min(part.size(), count - waiting_.size());
      ASSIGN_OR_RETURN(const size_t got, source_.Read(std::span(part).first(want), stop_));
      ended_ = got == 0;
      waiting_.append(part.data(), got);
    }
    return absl::OkStatus();
  }
  const std::string& waiting() const { return waiting_; }
  // The first `count` bytes. They must wait.
  std::string Take(size_t count) {
    std::string taken = waiting_.substr(0, count);
    waiting_.erase(0, count);
    return taken;
  }
  // Up to and without the next newline; OUT_OF_RANGE if the line has no end.
  absl::StatusOr<std::string> Line() {
    size_t end;
    while ((end = waiting_.find('\n')) == std::string::npos) {
      if (ended_ || waiting_.size() > kMaxHeaderBytes) return absl::OutOfRangeError("no line end");
      RETURN_IF_ERROR(Await(waiting_.size() + 1));
    }
    std::string line = Take(end + 1);
    line.pop_back();
    return line;
  }

 private:
  ImageSource& source_;
  const std::stop_token stop_;
  std::string waiting_;
  bool ended_ = false;
};

absl::Status CutShort(int64_t frame, size_t have, size_t want) {
  return absl::InvalidArgumentError(absl::StrCat("the stream ends within frame ", frame, ", after ",
                                                 have, " of its ", want, " bytes"));
}

// The next frame's bytes, `want` of them; counts it.
absl::StatusOr<std::string> TakeFrame(Bytes& bytes, size_t want, int64_t& frame) {
  RETURN_IF_ERROR(bytes.Await(want));
  if (bytes.waiting().size() < want) return CutShort(frame, bytes.waiting().size(), want);
  ++frame;
  return bytes.Take(want);
}

// --- YUV4MPEG2 ---

struct ChromaName {
  const char* name;
  Chroma chroma;
  Siting siting;
};
constexpr ChromaName kChromaNames[] = {
    {"420jpeg", Chroma::k420, Siting::kCenter},   {"420mpeg2", Chroma::k420, Siting::kLeft},
    {"420paldv", Chroma::k420, Siting::kTopLeft}, {"420", Chroma::k420, Siting::kCenter},
    {"422", Chroma::k422, Siting::kLeft},         {"444", Chroma::k444, Siting::kLeft},
    {"mono", Chroma::kMono, Siting::kLeft},
};

absl::Status ReadChroma(absl::string_view tag, YuvFormat& yuv) {
  for (const ChromaName& known : kChromaNames) {
    absl::string_view depth = tag;
    if (!absl::ConsumePrefix(&depth, known.name)) continue;
    yuv.chroma = known.chroma;
    yuv.siting = known.siting;
    yuv.depth = 8;
    if (depth.empty()) return absl::OkStatus();
    // 420p10, mono10. FFmpeg's samples of more than 8 bits lie on the left column.
    if (yuv.chroma != Chroma::kMono && !absl::ConsumePrefix(&depth, "p")) continue;
    if (absl::SimpleAtoi(depth, &yuv.depth) && yuv.depth > 8 && yuv.depth <= 16) {
      yuv.siting = Siting::kLeft;
      return absl::OkStatus();
    }
  }
  return absl::UnimplementedError(
      absl::StrCat("the film's samples are C", tag,
                   "; 420, 422, 444 and mono of 8 to 16 bits are read (ffmpeg -pix_fmt yuv420p)"));
}

absl::Status ReadTag(absl::string_view tag, FilmFormat& format) {
  const absl::string_view value = tag.substr(1);
  switch (tag[0]) {
    case 'W':
    case 'H': {
      int& side = tag[0] == 'W' ? format.yuv.size.width : format.yuv.size.height;
      if (absl::SimpleAtoi(value, &side) && side > 0 && side <= kMaxSidePx) return absl::OkStatus();
      return absl::InvalidArgumentError(
          absl::StrCat("the film's header says ", tag, "; a side has 1..", kMaxSidePx, " px"));
    }
    case 'I':
      if (value == "p" || value == "?") break;
      return absl::UnimplementedError(absl::StrCat("the film is interlaced (", tag,
                                                   "); deinterlace it first (ffmpeg -vf bwdif)"));
    case 'C':
      return ReadChroma(value, format.yuv);
    case 'X':
      if (value == "COLORRANGE=FULL") format.yuv.full_range = true;
      if (absl::StartsWith(value, "COLORRANGE=") || absl::StartsWith(value, kOldChromaTag)) {
        return absl::OkStatus();  // FilmHeader says it
      }
      break;
    default:
      break;
  }
  absl::StrAppend(&format.y4m_tags, " ", tag);
  return absl::OkStatus();
}

// Chooses the facts missing in a stream. INVALID_ARGUMENT for too large frames.
absl::Status Complete(const FrameReaderOptions& options, YuvFormat& yuv) {
  yuv.matrix = options.matrix.value_or(MatrixByHeight(yuv.size.height));
  yuv.full_range = options.full_range.value_or(yuv.full_range);
  if (yuv.frame_bytes() <= FrameReader::kMaxFrameBytes) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "a frame has ", yuv.frame_bytes(), " bytes; the limit is ", FrameReader::kMaxFrameBytes));
}

// Parameters may follow, behind a space.
bool BeginsFrame(absl::string_view line) {
  return absl::ConsumePrefix(&line, "FRAME") && (line.empty() || line[0] == ' ');
}

class Y4mReader final : public FrameReader {
 public:
  explicit Y4mReader(Bytes bytes) : bytes_(std::move(bytes)) {}

  absl::Status Start(const FrameReaderOptions& options) {
    format_.kind = FrameKind::kY4m;
    const absl::StatusOr<std::string> line = bytes_.Line();
    if (absl::IsOutOfRange(line.status())) {
      return absl::InvalidArgumentError("the header of YUV4MPEG2 has no end");
    }
    RETURN_IF_ERROR(line.status());
    YuvFormat& yuv = format_.yuv;
    yuv.siting = Siting::kCenter;  // of 420jpeg, which is meant without a tag
    const std::vector<absl::string_view> tags =
        absl::StrSplit(absl::StripPrefix(*line, kY4mMagic), ' ', absl::SkipEmpty());
    // A header without C may name its samples as mjpegtools once did: XYSCSS=420MPEG2.
    const bool names_chroma =
        std::ranges::any_of(tags, [](absl::string_view tag) { return tag[0] == 'C'; });
    for (absl::string_view tag : tags) {
      RETURN_IF_ERROR(ReadTag(tag, format_));
      if (!names_chroma && absl::ConsumePrefix(&tag, "X") &&
          absl::ConsumePrefix(&tag, kOldChromaTag)) {
        RETURN_IF_ERROR(ReadChroma(absl::AsciiStrToLower(tag), yuv));
      }
    }
    if (yuv.size.width == 0 || yuv.size.height == 0) {
      return absl::InvalidArgumentError("the header of YUV4MPEG2 says no size (W and H)");
    }
    return Complete(options, yuv);
  }

  absl::StatusOr<std::optional<std::string>> Next() override {
    RETURN_IF_ERROR(bytes_.Await(1));
    if (bytes_.waiting().empty()) {
      if (frame_ == 0) return absl::InvalidArgumentError(kNoFrames);
      return std::nullopt;
    }
    const absl::StatusOr<std::string> line = bytes_.Line();
    if (line.ok() ? !BeginsFrame(*line) : absl::IsOutOfRange(line.status())) {
      return absl::InvalidArgumentError(
          absl::StrCat("frame ", frame_, " does not begin with the line FRAME"));
    }
    RETURN_IF_ERROR(line.status());
    return TakeFrame(bytes_, format_.yuv.frame_bytes(), frame_);
  }

 private:
  Bytes bytes_;
  int64_t frame_ = 0;
};

std::string ChromaTag(const YuvFormat& yuv) {
  constexpr const char* kNames[] = {"mono", "420", "422", "444"};
  std::string tag = kNames[static_cast<size_t>(yuv.chroma)];
  const bool is_mono = yuv.chroma == Chroma::kMono;
  if (yuv.depth > 8) return absl::StrCat(tag, is_mono ? "" : "p", yuv.depth);
  constexpr const char* kSitings[] = {"mpeg2", "jpeg", "paldv"};
  return yuv.chroma == Chroma::k420 ? tag + kSitings[static_cast<size_t>(yuv.siting)] : tag;
}

// --- Raw frames ---

size_t RawFrameBytes(const FilmFormat& format) {
  const YuvFormat& yuv = format.yuv;
  if (format.kind == FrameKind::kRawYuv) return yuv.frame_bytes();
  return kRgbChannels * yuv.sample_bytes() * static_cast<size_t>(yuv.size.Area());
}

class RawReader final : public FrameReader {
 public:
  RawReader(Bytes bytes, const FilmFormat& format) : bytes_(std::move(bytes)) { format_ = format; }

  absl::Status Start(const FrameReaderOptions& options) { return Complete(options, format_.yuv); }

  absl::StatusOr<std::optional<std::string>> Next() override {
    RETURN_IF_ERROR(bytes_.Await(1));
    if (bytes_.waiting().empty()) return std::nullopt;
    return TakeFrame(bytes_, RawFrameBytes(format_), frame_);
  }

 private:
  Bytes bytes_;
  int64_t frame_ = 0;
};

// --- PNG and Netpbm ---

// The bytes of the PNG at the beginning of `bytes`, up to the end of its IEND; 0: more are needed.
size_t PngBytes(const std::string& bytes) {
  size_t at = kPngMagic.size();
  while (at + 8 <= bytes.size()) {
    const std::span<const uint8_t> chunk = AsBytes(std::string_view(bytes).substr(at));
    const size_t length = LoadBe32(chunk.data());
    const bool is_last = std::memcmp(&bytes[at + 4], "IEND", 4) == 0;
    at += 12 + length;
    if (is_last) return at;
  }
  return 0;
}

// The header of a binary PPM or PGM.
struct Netpbm {
  ImageSpec spec;
  int most = 0;
  size_t header_bytes = 0;
};

// nullopt: more bytes are needed.
absl::StatusOr<std::optional<Netpbm>> ParseNetpbm(absl::string_view bytes) {
  std::array<int, 3> numbers = {};
  size_t at = 2;
  for (int& number : numbers) {
    while (at < bytes.size() && (absl::ascii_isspace(bytes[at]) || bytes[at] == '#')) {
      if (bytes[at] == '#') at = std::min(bytes.find('\n', at), bytes.size());
      if (at < bytes.size()) ++at;
    }
    const size_t begin = at;
    while (at < bytes.size() && absl::ascii_isdigit(bytes[at])) ++at;
    if (at == bytes.size() && at < kMaxHeaderBytes) return std::nullopt;
    if (!absl::SimpleAtoi(bytes.substr(begin, at - begin), &number) || number < 1 ||
        number > kMaxSidePx) {
      return absl::InvalidArgumentError(
          absl::StrCat("a header of PPM has a number that is not in 1..", kMaxSidePx));
    }
  }
  if (!absl::ascii_isspace(bytes[at]))
    return absl::InvalidArgumentError("a header of PPM is wrong");
  const SampleType type = numbers[2] > 255 ? SampleType::kU16 : SampleType::kU8;
  return Netpbm{.spec = {numbers[0], numbers[1], bytes[1] == '6' ? kRgbChannels : 1, type},
                .most = numbers[2],
                .header_bytes = at + 1};
}

size_t FrameBytes(const Netpbm& header) {
  return header.header_bytes + header.spec.row_bytes() * static_cast<size_t>(header.spec.height_px);
}

// Files put together: of each, its beginning tells its end.
class FileReader final : public FrameReader {
 public:
  FileReader(Bytes bytes, FrameKind kind) : bytes_(std::move(bytes)) { format_.kind = kind; }

  absl::StatusOr<std::optional<std::string>> Next() override {
    RETURN_IF_ERROR(bytes_.Await(kPngMagic.size()));
    if (bytes_.waiting().empty()) return std::nullopt;
    ASSIGN_OR_RETURN(const size_t bytes, AwaitFrame());
    ++frame_;
    return bytes_.Take(bytes);
  }

 private:
  // The number of bytes of the next frame. All of them wait.
  absl::StatusOr<size_t> AwaitFrame() {
    for (size_t want = 64; want <= kMaxFrameBytes;) {
      RETURN_IF_ERROR(bytes_.Await(want));
      ASSIGN_OR_RETURN(const size_t bytes, BytesOfFrame());
      const size_t have = bytes_.waiting().size();
      if (bytes != 0 && bytes <= have) return bytes;
      if (have < want) return CutShort(frame_, have, std::max(bytes, want));
      want = bytes != 0 ? bytes : 2 * want;
    }
    return absl::InvalidArgumentError(
        absl::StrCat("frame ", frame_, " has more than ", kMaxFrameBytes, " bytes"));
  }

  // 0: not known yet.
  absl::StatusOr<size_t> BytesOfFrame() const {
    const std::string& waiting = bytes_.waiting();
    const bool is_png = format_.kind == FrameKind::kPng;
    if (is_png ? !absl::StartsWith(waiting, kPngMagic)
               : !absl::StartsWith(waiting, "P6") && !absl::StartsWith(waiting, "P5")) {
      return absl::InvalidArgumentError(
          absl::StrCat("frame ", frame_, " is no ", is_png ? "PNG" : "PPM", ", as the first is"));
    }
    if (is_png) return PngBytes(waiting);
    ASSIGN_OR_RETURN(const auto header, ParseNetpbm(waiting));
    return header.has_value() ? FrameBytes(*header) : 0;
  }

  Bytes bytes_;
  int64_t frame_ = 0;
};

// --- Pictures ---

// Frames of samples, as little-endian as this machine.
Image RawRgbImage(absl::string_view frame, const YuvFormat& format) {
  Image image({format.size.width, format.size.height, kRgbChannels,
               format.depth > 8 ? SampleType::kU16 : SampleType::kU8});
  std::memcpy(image.mutable_view().data, frame.data(), image.bytes());
  return image;
}

std::string RawRgbFrame(ImageView image) {
  std::string frame;
  const size_t pixel_bytes = kRgbChannels * SampleBytes(image.spec.type);
  for (int y = 0; y < image.height_px(); ++y)
    for (int x = 0; x < image.width_px(); ++x)
      frame.append(reinterpret_cast<const char*>(image.row(y)) +
                       static_cast<size_t>(x) * image.spec.pixel_bytes(),
                   pixel_bytes);
  return frame;
}

// Netpbm's samples of 16 bits are in big-endian order; all are of 0..`most`.
absl::StatusOr<Image> DecodeNetpbm(const std::string& bytes) {
  ASSIGN_OR_RETURN(const auto header, ParseNetpbm(bytes));
  Image image(header->spec);
  const bool is_wide = header->spec.type == SampleType::kU16;
  const auto most = static_cast<unsigned>(header->most), all = is_wide ? 65535u : 255u;
  const std::span<const uint8_t> from = AsBytes(bytes).subspan(header->header_bytes, image.bytes());
  uint8_t* const to = image.mutable_view().data;
  for (size_t i = 0; i < from.size(); i += is_wide ? 2 : 1) {
    const unsigned value = std::min<unsigned>(is_wide ? LoadBe16(&from[i]) : from[i], most);
    const unsigned scaled = (value * all + most / 2) / most;
    if (is_wide) {
      const auto sample = static_cast<uint16_t>(scaled);
      std::memcpy(to + i, &sample, sizeof sample);
    } else {
      to[i] = static_cast<uint8_t>(scaled);
    }
  }
  return image;
}

// PPM of colours, PGM of gray; alpha is dropped.
std::string EncodeNetpbm(ImageView image) {
  const ImageSpec& spec = image.spec;
  const bool is_wide = spec.type == SampleType::kU16;
  const int channels = spec.channels >= kRgbChannels ? kRgbChannels : 1;
  std::string bytes = absl::StrCat(channels == 1 ? "P5" : "P6", "\n", spec.width_px, " ",
                                   spec.height_px, "\n", is_wide ? 65535 : 255, "\n");
  for (int y = 0; y < spec.height_px; ++y) {
    for (int x = 0; x < spec.width_px; ++x) {
      for (int c = 0; c < channels; ++c) {
        const int at = x * spec.channels + c;
        if (is_wide) {
          const uint16_t sample = image.row_as<uint16_t>(y)[at];
          bytes.push_back(static_cast<char>(sample >> 8));
          bytes.push_back(static_cast<char>(sample & 0xFF));
        } else {
          bytes.push_back(static_cast<char>(image.row(y)[at]));
        }
      }
    }
  }
  return bytes;
}

YuvFormat LumaAlone(YuvFormat format) {
  format.chroma = Chroma::kMono;
  return format;
}

absl::StatusOr<Image> ImageOf(const std::string& frame, const FilmFormat& format) {
  switch (format.kind) {
    case FrameKind::kPng:
      return absl::InternalError("a PNG is sent as it is");
    case FrameKind::kPpm:
      return DecodeNetpbm(frame);
    case FrameKind::kRawRgb:
      return RawRgbImage(frame, format.yuv);
    case FrameKind::kY4m:
    case FrameKind::kRawYuv:
      break;
  }
  if (!format.resamples_chroma) return YuvToRgb(AsBytes(frame), format.yuv);
  const YuvFormat luma = LumaAlone(format.yuv);
  return YuvToRgb(AsBytes(frame).first(luma.frame_bytes()), luma);
}

// The result `image` of `frame`.
std::string FrameBytesOf(ImageView image, const std::string& frame, const FilmFormat& source) {
  if (source.kind == FrameKind::kPpm) return EncodeNetpbm(image);
  if (source.kind == FrameKind::kRawRgb) return RawRgbFrame(image);
  const char* const begin = source.kind == FrameKind::kY4m ? "FRAME\n" : "";
  YuvFormat yuv = source.resamples_chroma ? LumaAlone(source.yuv) : source.yuv;
  yuv.size = image.spec.size();
  if (!source.resamples_chroma) return absl::StrCat(begin, RgbToYuv(image, yuv));
  return absl::StrCat(begin, RgbToYuv(image, yuv),
                      ResampleChroma(AsBytes(frame), source.yuv, yuv.size));
}

// Rows of samples, with `pixel_samples` to a pixel.
struct SamplePlane {
  Size size;
  size_t pixel_samples = 1;
};

std::vector<SamplePlane> PlanesOf(const FilmFormat& format) {
  if (format.kind == FrameKind::kRawRgb) return {{format.yuv.size, kRgbChannels}};
  const Size chroma = format.yuv.chroma_size();
  return {{format.yuv.size}, {chroma}, {chroma}};
}

// Whether no sample of two runs differs by more than `most`.
template <typename Sample>
bool AreNear(const char* before, const char* frame, size_t bytes, int most) {
  for (size_t at = 0; at < bytes; at += sizeof(Sample)) {
    Sample first, second;
    std::memcpy(&first, before + at, sizeof first);
    std::memcpy(&second, frame + at, sizeof second);
    if (std::abs(int{first} - int{second}) > most) return false;
  }
  return true;
}

// Results are as large as the server makes them.
const DecodeLimits kFrameLimits{.max_pixels = int64_t{1} << 40,
                                .max_animation_bytes = std::numeric_limits<size_t>::max(),
                                .frame = 0};

}  // namespace

absl::StatusOr<std::unique_ptr<FrameReader>> FrameReader::Open(ImageSource& source,
                                                               const FrameReaderOptions& options,
                                                               std::stop_token stop) {
  ASSIGN_OR_RETURN(std::unique_ptr<FrameReader> reader,
                   OpenStream(source, options, std::move(stop)));
  FilmFormat& format = reader->format_;
  format.resamples_chroma = options.resamples_chroma;
  if (!format.resamples_chroma || format.kind == FrameKind::kY4m ||
      format.kind == FrameKind::kRawYuv)
    return reader;
  return absl::InvalidArgumentError(
      "chroma is resampled of frames that have luma and chroma, and this film's frames have RGB: "
      "pipe YUV4MPEG2 (ffmpeg -f yuv4mpegpipe) into it");
}

absl::StatusOr<std::unique_ptr<FrameReader>> FrameReader::OpenStream(
    ImageSource& source, const FrameReaderOptions& options, std::stop_token stop) {
  Bytes bytes(source, std::move(stop));
  RETURN_IF_ERROR(bytes.Await(kY4mMagic.size()));
  const std::string& begin = bytes.waiting();
  if (begin.empty()) return absl::InvalidArgumentError(kNoFrames);
  if (options.raw.has_value()) {
    if (absl::StartsWith(begin, kY4mMagic)) {
      return absl::InvalidArgumentError(
          "the stream has a header of YUV4MPEG2, and raw frames have none");
    }
    auto reader = std::make_unique<RawReader>(std::move(bytes), *options.raw);
    RETURN_IF_ERROR(reader->Start(options));
    return reader;
  }
  if (absl::StartsWith(begin, kY4mMagic)) {
    auto reader = std::make_unique<Y4mReader>(std::move(bytes));
    RETURN_IF_ERROR(reader->Start(options));
    return reader;
  }
  const bool is_png = absl::StartsWith(begin, kPngMagic);
  if (is_png || absl::StartsWith(begin, "P6") || absl::StartsWith(begin, "P5")) {
    return std::make_unique<FileReader>(std::move(bytes),
                                        is_png ? FrameKind::kPng : FrameKind::kPpm);
  }
  return absl::InvalidArgumentError(
      "the stream is no film that is read: pipe YUV4MPEG2 (ffmpeg -f yuv4mpegpipe) or PNG or PPM "
      "files (ffmpeg -f image2pipe -c:v png) into it");
}

absl::StatusOr<FilmFormat> RawFormat(Size size, absl::string_view name) {
  if (std::min(size.width, size.height) < 1 || std::max(size.width, size.height) > kMaxSidePx) {
    return absl::InvalidArgumentError(absl::StrCat("raw frames have ", size.width, "x", size.height,
                                                   " px; a side has 1..", kMaxSidePx, " px"));
  }
  FilmFormat format{.kind = FrameKind::kRawYuv, .yuv = {.size = size}};
  for (const auto& [rgb, depth] : {std::pair{"rgb24", 8}, std::pair{"rgb48le", 16}}) {
    if (name != rgb) continue;
    format.kind = FrameKind::kRawRgb;
    format.yuv.depth = depth;
    return format;
  }
  constexpr std::pair<const char*, Chroma> kNames[] = {
      {"420p", Chroma::k420}, {"422p", Chroma::k422}, {"444p", Chroma::k444}};
  absl::string_view rest = name;
  bool known = false;
  if (absl::ConsumePrefix(&rest, "gray")) {
    format.yuv.chroma = Chroma::kMono;
    format.yuv.full_range = true;  // as FFmpeg converts to it
    known = true;
  } else if (absl::ConsumePrefix(&rest, "yuv")) {
    format.yuv.full_range = absl::ConsumePrefix(&rest, "j");
    for (const auto& [chroma_name, chroma] : kNames) {
      if (known || !absl::ConsumePrefix(&rest, chroma_name)) continue;
      format.yuv.chroma = chroma;
      known = true;
    }
  }
  if (known && rest.empty()) return format;
  if (known && absl::ConsumeSuffix(&rest, "le") && absl::SimpleAtoi(rest, &format.yuv.depth) &&
      rest == absl::StrCat(format.yuv.depth) && format.yuv.depth > 8 && format.yuv.depth <= 16 &&
      !absl::StartsWith(name, "yuvj"))
    return format;
  return absl::UnimplementedError(
      absl::StrCat("raw frames of ", name,
                   " are not read; yuv420p, yuv422p, yuv444p and gray are, "
                   "with 9le to 16le behind them for more bits, yuvj420p and so on, rgb24 and "
                   "rgb48le"));
}

bool HasPlainSamples(const FilmFormat& format) { return format.kind != FrameKind::kPng; }

void HoldNoise(const FilmFormat& format, int levels, absl::string_view before, std::string& frame) {
  constexpr int kBlockPx = 8;
  const size_t sample_bytes = format.yuv.sample_bytes();
  const int most = levels << (format.yuv.depth - 8);
  const auto are_near = sample_bytes == 1 ? AreNear<uint8_t> : AreNear<uint16_t>;
  size_t plane_begin = 0;
  for (const SamplePlane& plane : PlanesOf(format)) {
    const size_t pixel_bytes = plane.pixel_samples * sample_bytes;
    const size_t row_bytes = static_cast<size_t>(plane.size.width) * pixel_bytes;
    for (int y = 0; y < plane.size.height; y += kBlockPx) {
      const int rows = std::min(kBlockPx, plane.size.height - y);
      for (int x = 0; x < plane.size.width; x += kBlockPx) {
        const size_t begin =
            plane_begin + static_cast<size_t>(y) * row_bytes + static_cast<size_t>(x) * pixel_bytes;
        const size_t bytes =
            static_cast<size_t>(std::min(kBlockPx, plane.size.width - x)) * pixel_bytes;
        const auto row_is_near = [&](int row) {
          const size_t at = begin + static_cast<size_t>(row) * row_bytes;
          return are_near(&before[at], &frame[at], bytes, most);
        };
        int near_rows = 0;
        while (near_rows < rows && row_is_near(near_rows)) ++near_rows;
        if (near_rows < rows) continue;
        for (int row = 0; row < rows; ++row) {
          const size_t at = begin + static_cast<size_t>(row) * row_bytes;
          std::memcpy(&frame[at], &before[at], bytes);
        }
      }
    }
    plane_begin += static_cast<size_t>(plane.size.height) * row_bytes;
  }
}

double ChangedShare(const FilmFormat& format, const std::string& before, const std::string& frame) {
  constexpr size_t kBlockBytes = 64;
  if (before.size() != frame.size()) return 1;
  if (format.kind == FrameKind::kPpm) {
    const auto first = ParseNetpbm(before), second = ParseNetpbm(frame);
    if (!first.ok() || !second.ok() || (*first)->spec != (*second)->spec) return 1;
  }
  size_t changed = 0, blocks = 0;
  for (size_t at = 0; at < frame.size(); at += kBlockBytes, ++blocks)
    changed += before.compare(at, kBlockBytes, frame, at, kBlockBytes) != 0 ? 1 : 0;
  return blocks == 0 ? 0 : static_cast<double>(changed) / static_cast<double>(blocks);
}

absl::StatusOr<std::string> FrameToPng(std::string frame, const FilmFormat& format) {
  if (format.kind == FrameKind::kPng) return frame;
  return FramesToPng(std::span(&frame, 1), format);
}

absl::StatusOr<std::string> FramesToPng(std::span<const std::string> frames,
                                        const FilmFormat& format) {
  StringSink sink;
  std::unique_ptr<ImageEncoder> encoder;
  ImageSpec spec;  // of all frames
  for (const std::string& frame : frames) {
    ASSIGN_OR_RETURN(const Image image, ImageOf(frame, format));
    if (encoder != nullptr && image.spec() != spec)
      return absl::InvalidArgumentError("the frames of an animation have one size");
    if (encoder == nullptr) {
      spec = image.spec();
      EncodeOptions options{.format = ImageFormat::kPng, .compression = 0};
      if (frames.size() > 1) options.animation = Animation{static_cast<int>(frames.size()), 1};
      ASSIGN_OR_RETURN(encoder, CreateImageEncoder(options, spec, ImageMetadata(), sink));
    }
    if (frames.size() > 1) RETURN_IF_ERROR(encoder->BeginFrame(FrameDelay()));
    RETURN_IF_ERROR(encoder->WriteRows(image.view()));
  }
  RETURN_IF_ERROR(encoder->Finish());
  return sink.Take();
}

std::string FilmHeader(const FilmFormat& format) {
  if (format.kind != FrameKind::kY4m) return "";
  const YuvFormat& yuv = format.yuv;
  return absl::StrCat(kY4mMagic, " W", yuv.size.width, " H", yuv.size.height, format.y4m_tags, " C",
                      ChromaTag(yuv), " XCOLORRANGE=", yuv.full_range ? "FULL" : "LIMITED", "\n");
}

absl::StatusOr<FrameResult> FrameFromPng(std::string png, const std::string& frame,
                                         const FilmFormat& source) {
  if (source.kind == FrameKind::kPng) return FrameResult{.bytes = std::move(png)};
  ASSIGN_OR_RETURN(std::vector<FrameResult> results,
                   FramesFromPng(png, std::span(&frame, 1), source));
  return std::move(results.front());
}

absl::StatusOr<std::vector<FrameResult>> FramesFromPng(const std::string& png,
                                                       std::span<const std::string> frames,
                                                       const FilmFormat& source) {
  upscaled::MemorySource bytes(png);
  ASSIGN_OR_RETURN(const auto decoder, OpenImageDecoder(bytes, kFrameLimits));
  const std::optional<Animation>& animation = decoder->header().animation;
  const size_t count = static_cast<size_t>(animation.value_or(Animation()).frames);
  if (count != frames.size()) {
    return absl::InternalError(
        absl::StrCat("the server gave ", count, " frames for ", frames.size()));
  }
  std::vector<FrameResult> results;
  for (const std::string& frame : frames) {
    if (animation.has_value()) RETURN_IF_ERROR(decoder->NextFrame().status());
    Image image(decoder->spec());
    RETURN_IF_ERROR(decoder->ReadRows(image.mutable_view()));
    results.push_back({image.spec().size(), FrameBytesOf(image.view(), frame, source)});
  }
  return results;
}

}  // namespace upscaled::client
