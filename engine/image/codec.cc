#include "engine/image/codec.h"

#include <algorithm>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "engine/base/alternatives.h"
#include "engine/base/file_kind.h"
#include "engine/base/status_macros.h"
#include "engine/base/string_view.h"
#include "engine/image/codec_list.h"
#include "engine/image/endian.h"
#include "engine/image/replay_source.h"

namespace upscaled {
namespace {

constexpr size_t kFirstReadBytes = 4096;

const Codec& CodecFor(ImageFormat format) {
  return *std::find_if(Codecs().begin(), Codecs().end(),
                       [format](const Codec& codec) { return codec.format == format; });
}

enum class Match : uint8_t { kNo, kNeedsMore, kYes };

Match MatchSignature(std::span<const uint8_t> prefix, std::string_view signature) {
  const size_t count = std::min(prefix.size(), signature.size());
  for (size_t i = 0; i < count; ++i)
    if (signature[i] != '?' && static_cast<uint8_t>(signature[i]) != prefix[i]) return Match::kNo;
  return count == signature.size() ? Match::kYes : Match::kNeedsMore;
}

// `prefix` begins with a box "ftyp": its size, "ftyp", a brand, a version and further brands.
Match MatchBrands(std::span<const uint8_t> prefix, std::span<const std::string_view> brands) {
  constexpr size_t kMaxBoxBytes = 256, kMajorBrand = 8, kVersion = 12;
  const size_t box_bytes = std::min<size_t>(LoadBe32(prefix.data()), kMaxBoxBytes);
  for (size_t i = kMajorBrand; i + 4 <= std::min(box_bytes, prefix.size()); i += 4) {
    const std::string_view brand(reinterpret_cast<const char*>(&prefix[i]), 4);
    if (i != kVersion && std::ranges::find(brands, brand) != brands.end()) return Match::kYes;
  }
  return prefix.size() < box_bytes ? Match::kNeedsMore : Match::kNo;
}

Match MatchCodec(std::span<const uint8_t> prefix, const Codec& codec) {
  Match best = Match::kNo;
  for (const std::string_view signature : codec.signatures)
    if (!signature.empty()) best = std::max(best, MatchSignature(prefix, signature));
  if (best != Match::kYes || codec.brands[0].empty()) return best;
  return MatchBrands(prefix, codec.brands);
}

// The first codec whose files may begin with `prefix`; `match` tells whether this is certain.
const Codec* CodecOf(std::span<const uint8_t> prefix, Match& match) {
  for (const Codec& codec : Codecs()) {
    match = MatchCodec(prefix, codec);
    if (match != Match::kNo) return &codec;
  }
  return nullptr;
}

// "PNG, JPEG or WebP"
std::string TitlesOfDecoded() {
  std::vector<std::string> titles;
  for (const Codec& codec : Codecs())
    if (CanDecode(codec.format)) titles.emplace_back(codec.title);
  return Alternatives(std::move(titles));
}

// Names the file's kind, if its beginning tells.
absl::Status NoImageOfOurs(std::span<const uint8_t> prefix) {
  const std::string ours = absl::StrCat("not a ", TitlesOfDecoded(), " image");
  const std::optional<FileKind> kind = RecognizeFileKind(prefix);
  if (!kind.has_value()) {
    const absl::string_view begin(reinterpret_cast<const char*>(prefix.data()),
                                  std::min<size_t>(prefix.size(), 8));
    return absl::InvalidArgumentError(
        absl::StrCat(ours, ": it begins with the bytes ", absl::BytesToHexString(begin)));
  }
  return absl::InvalidArgumentError(absl::StrCat("this is ", ToAbsl(kind->name), ", ", ours,
                                                 kind->advice.empty() ? "" : "; ",
                                                 ToAbsl(kind->advice)));
}

bool IsOneOf(std::span<const char* const> texts, std::string_view text) {
  return !text.empty() && std::ranges::any_of(texts, [wanted = ToAbsl(text)](const char* known) {
    return absl::EqualsIgnoreCase(wanted, known);
  });
}

}  // namespace

bool CanDecode(ImageFormat format) { return CodecFor(format).open_decoder != nullptr; }

bool NeedsCage(ImageFormat format) { return CodecFor(format).needs_cage; }

bool CanEncode(ImageFormat format) { return CodecFor(format).create_encoder != nullptr; }

ImageFormat ResultFormatOf(ImageFormat source) {
  return CanEncode(source) ? source : ImageFormat::kPng;
}

bool HoldsFrames(ImageFormat format) {
  return CodecFor(format).create_animation_encoder != nullptr;
}

bool HoldsLateMetadata(const EncodeOptions& options) {
  return options.format != ImageFormat::kJpeg &&
         !(options.format == ImageFormat::kAvif && options.animation.has_value());
}

bool HoldsCicp(ImageFormat format) { return CodecFor(format).holds_cicp; }

std::optional<ImageFormat> RecognizeFormat(std::span<const uint8_t> prefix) {
  Match match;
  const Codec* const codec = CodecOf(prefix, match);
  return codec == nullptr || match != Match::kYes ? std::nullopt : std::optional(codec->format);
}

absl::StatusOr<std::optional<ImageHeader>> ParseImageHeader(std::span<const uint8_t> prefix,
                                                            const DecodeLimits& limits,
                                                            bool is_whole) {
  Match match;
  const Codec* const codec = CodecOf(prefix, match);
  if (codec == nullptr) return NoImageOfOurs(prefix);
  if (match == Match::kNeedsMore) return std::nullopt;
  if (!CanDecode(codec->format)) return NoImageOfOurs(prefix);
  if (codec->needs_cage && !limits.is_caged)
    return absl::InvalidArgumentError(
        absl::StrCat(codec->title,
                     " is read only where images are decoded in a sandbox, which is off or missing "
                     "here (--decode-sandbox)"));
  ASSIGN_OR_RETURN(std::optional<ImageHeader> header,
                   codec->parse_header(prefix, limits, is_whole));
  if (header.has_value() && limits.frame > 1 && !(codec->reads_frames && header->may_move))
    return absl::InvalidArgumentError(absl::StrCat(
        codec->title, ": frame ", limits.frame, " is asked for; ",
        header->may_move ? "only the first of its frames is read" : "the image has 1"));
  return header;
}

absl::StatusOr<ImageHeader> ReadImageHeader(ByteSource& source, const DecodeLimits& limits,
                                            std::vector<uint8_t>& prefix) {
  // Looks again when the prefix has grown by a quarter: a slow source costs no quadratic time.
  size_t next_look = 1;
  while (true) {
    const size_t have = prefix.size();
    prefix.resize(std::max(kFirstReadBytes, have + have / 2));
    absl::StatusOr<size_t> count = source.Read(std::span(prefix).subspan(have));
    prefix.resize(have + count.value_or(0));
    RETURN_IF_ERROR(count.status());
    if (prefix.size() < next_look && *count > 0) continue;
    next_look = prefix.size() + prefix.size() / 4;

    ASSIGN_OR_RETURN(const std::optional<ImageHeader> header,
                     ParseImageHeader(prefix, limits, /*is_whole=*/*count == 0));
    if (header.has_value()) return *header;
    if (*count > 0) continue;
    if (prefix.empty()) return absl::InvalidArgumentError("the image is empty");
    return absl::InvalidArgumentError(
        absl::StrCat("the image ends in its header, after ", prefix.size(), " bytes"));
  }
}

absl::StatusOr<std::unique_ptr<ImageDecoder>> OpenImageDecoder(ByteSource& source,
                                                               const DecodeLimits& limits,
                                                               const Cancellation* cancellation) {
  std::vector<uint8_t> prefix;
  ASSIGN_OR_RETURN(const ImageHeader header, ReadImageHeader(source, limits, prefix));
  return CodecFor(header.format)
      .open_decoder(std::make_unique<ReplaySource>(std::move(prefix), source), header, limits,
                    cancellation);
}

absl::StatusOr<FrameDelay> ImageDecoder::NextFrame() {
  return absl::FailedPreconditionError("no animation is read");
}

absl::Status CheckEncodable(ImageFormat format, const ImageSpec& spec) {
  const Codec& codec = CodecFor(format);
  if (!CanEncode(format))
    return absl::InvalidArgumentError(absl::StrCat(codec.name, " is not written by this build"));
  if (spec.width_px < 1 || spec.height_px < 1 || spec.channels < 1 || spec.channels > 4)
    return absl::InvalidArgumentError(absl::StrCat(
        "no image: ", spec.width_px, " x ", spec.height_px, " px of ", spec.channels, " channels"));
  if (std::max(spec.width_px, spec.height_px) > codec.max_side_px)
    return absl::InvalidArgumentError(absl::StrCat(codec.name, " holds at most ", codec.max_side_px,
                                                   " px a side, not ", spec.width_px, " x ",
                                                   spec.height_px));
  if (spec.type == SampleType::kF32 || (spec.type == SampleType::kU16 && !codec.holds_u16))
    return absl::InvalidArgumentError(absl::StrCat(codec.name, " holds at most ",
                                                   codec.holds_u16 ? 16 : 8, " bits a sample, not ",
                                                   8 * SampleBytes(spec.type)));
  if (spec.has_alpha() && !codec.holds_alpha)
    return absl::InvalidArgumentError(absl::StrCat(codec.name, " holds no alpha"));
  if (spec.channels < 3 && !codec.holds_gray)
    return absl::InvalidArgumentError(absl::StrCat(codec.name, " holds no gray images"));
  return absl::OkStatus();
}

ImageSpec OutputSpecFor(ImageFormat format, const ImageSpec& spec) {
  const Codec& codec = CodecFor(format);
  ImageSpec result = spec;
  const bool alpha = spec.has_alpha() && codec.holds_alpha;
  const bool gray = spec.channels < 3 && codec.holds_gray;
  result.channels = (gray ? 1 : 3) + (alpha ? 1 : 0);
  if (spec.type != SampleType::kU8)
    result.type = codec.holds_u16 ? SampleType::kU16 : SampleType::kU8;
  return result;
}

size_t EncoderBytes(const EncodeOptions& options, const ImageSpec& spec) {
  const Codec& codec = CodecFor(options.format);
  return options.animation.has_value() ? codec.animation_encoder_bytes(options, spec)
                                       : codec.encoder_bytes(options, spec);
}

absl::StatusOr<std::unique_ptr<ImageEncoder>> CreateImageEncoder(const EncodeOptions& options,
                                                                 const ImageSpec& spec,
                                                                 const ImageMetadata& metadata,
                                                                 ByteSink& sink,
                                                                 const Cancellation* cancellation) {
  RETURN_IF_ERROR(CheckEncodable(options.format, spec));
  if (options.quality < 1 || options.quality > 100)
    return absl::InvalidArgumentError(
        absl::StrCat("quality is ", options.quality, "; it must be 1..100"));
  if (options.compression < 0 || options.compression > 9)
    return absl::InvalidArgumentError(
        absl::StrCat("compression is ", options.compression, "; it must be 0..9"));
  if (options.animation.has_value() && !HoldsFrames(options.format))
    return absl::InvalidArgumentError(
        absl::StrCat(CodecFor(options.format).name, " holds no animations"));
  if (options.threads < 1)
    return absl::InvalidArgumentError(
        absl::StrCat("threads is ", options.threads, "; it must be at least 1"));
  const Codec& codec = CodecFor(options.format);
  const auto create =
      options.animation.has_value() ? codec.create_animation_encoder : codec.create_encoder;
  return create(options, spec, metadata, sink, cancellation);
}

std::string_view FormatName(ImageFormat format) { return CodecFor(format).name; }

std::string_view FormatExtension(ImageFormat format) { return CodecFor(format).extensions[0]; }

std::string_view FormatMediaType(ImageFormat format) { return CodecFor(format).media_types[0]; }

std::optional<ImageFormat> FormatFromName(std::string_view name) {
  for (const Codec& codec : Codecs()) {
    if (IsOneOf({&codec.name, 1}, name) || IsOneOf(codec.extensions, name)) return codec.format;
  }
  return std::nullopt;
}

std::optional<ImageFormat> FormatFromMediaType(std::string_view media_type) {
  for (const Codec& codec : Codecs()) {
    if (IsOneOf(codec.media_types, media_type)) return codec.format;
  }
  return std::nullopt;
}

}  // namespace upscaled
