#include "client/worker/film_commands.h"

#include <algorithm>
#include <filesystem>
#include <initializer_list>
#include <iterator>
#include <system_error>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/video/ffmpeg.h"

namespace upscaled::client {
namespace {

// Both encoders refuse sides that subsampled chroma does not divide.
constexpr char kWholeChroma[] = "crop=iw-mod(iw\\,hsub):ih-mod(ih\\,vsub):0:0";
constexpr const char* kH264[] = {"-vf",     kWholeChroma, "-c:v", "libx264",
                                 "-preset", "medium",     "-crf", "16"};
constexpr const char* kH265[] = {"-vf",    kWholeChroma, "-c:v", "libx265",      "-preset",
                                 "medium", "-crf",       "18",   "-x265-params", "log-level=error"};
constexpr const char* kFfv1[] = {"-c:v", "ffv1", "-level", "3", "-g", "1"};
constexpr VideoCodec kVideoCodecs[] = {{"h264", kH264}, {"h265", kH265}, {"ffv1", kFfv1}};

struct ContainerName {
  Container container;
  const char *ending, *format;  // ffmpeg's
};
constexpr ContainerName kContainers[] = {{Container::kMatroska, ".mkv", "matroska"},
                                         {Container::kMp4, ".mp4", "mp4"},
                                         {Container::kMov, ".mov", "mov"}};

const char* FormatOf(Container container) {
  return kContainers[static_cast<size_t>(container)].format;
}

void Append(FfmpegCommand& command, std::initializer_list<std::string> arguments) {
  command.insert(command.end(), arguments);
}

FfmpegCommand QuietFfmpeg() { return {"ffmpeg", "-nostdin", "-v", "error"}; }

// Opens Ffmpeg::kSource, and no file named in it.
void AppendSource(FfmpegCommand& command) {
  Append(command,
         {"-protocol_whitelist", "file", "-format_whitelist", kFilmFormats, "-i", Ffmpeg::kSource});
}

// Encoders and containers take no colours from the frames of YUV4MPEG2.
void AppendColours(FfmpegCommand& command, const server::FilmPart& part) {
  constexpr std::pair<const char*, const char*> kSpaces[] = {
      {"601", "smpte170m"}, {"709", "bt709"}, {"2020", "bt2020nc"}};
  for (const auto& [matrix, space] : kSpaces)
    if (part.matrix == matrix) Append(command, {"-colorspace", space});
  if (!part.primaries.empty()) Append(command, {"-color_primaries", part.primaries});
  if (!part.transfer.empty()) Append(command, {"-color_trc", part.transfer});
  if (!part.range.empty()) Append(command, {"-color_range", part.range});
}

void AppendCodec(FfmpegCommand& command, const server::FilmPart& part, const VideoCodec& codec) {
  command.insert(command.end(), codec.arguments.begin(), codec.arguments.end());
  AppendColours(command, part);
}

// Streams as they are, FLAC in MP4 among them (experimental in ffmpeg 5).
void AppendCopy(FfmpegCommand& command) { Append(command, {"-c", "copy", "-strict", "-2"}); }

// `stream` of input `input` as stream `number` of its type in the result.
void AppendStream(FfmpegCommand& command, int input, const FilmStream& stream, int number,
                  Container container) {
  Append(command, {"-map", absl::StrCat(input, ":", stream.number)});
  if (stream.type == "subtitle")
    Append(command, {absl::StrCat("-c:s:", number), SubtitleCodecFor(stream.codec, container)});
}

}  // namespace

std::span<const VideoCodec> VideoCodecs() { return kVideoCodecs; }

const VideoCodec* FindVideoCodec(const std::string& name) {
  for (const VideoCodec& codec : kVideoCodecs)
    if (name == codec.name) return &codec;
  return nullptr;
}

absl::StatusOr<Container> ContainerOf(const std::string& path) {
  const std::string ending =
      absl::AsciiStrToLower(std::filesystem::path(path).extension().native());
  std::error_code ignored;
  if (absl::EndsWith(path, "/") || std::filesystem::is_directory(path, ignored)) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, " is a folder; name the film's file, such as film.mkv"));
  }
  for (const ContainerName& known : kContainers)
    if (ending == known.ending) return known.container;
  return absl::InvalidArgumentError(absl::StrCat(
      path, " ends in ", ending.empty() ? "nothing" : ending, "; films end in .mkv, .mp4 or .mov"));
}

const char* EndingOf(Container container) {
  return kContainers[static_cast<size_t>(container)].ending;
}

std::string SubtitleCodecFor(const std::string& codec, Container container) {
  // Pictures: ffmpeg makes no text of them.
  constexpr const char* kPictures[] = {"hdmv_pgs_subtitle", "dvd_subtitle", "dvb_subtitle"};
  constexpr const char* kMatroskaTexts[] = {"subrip", "ass", "ssa", "webvtt", "hdmv_text_subtitle"};
  const auto is_in = [&](const auto& list) {
    return std::ranges::find(list, codec) != std::end(list);
  };
  if (codec == "unknown" || codec == "xsub") return "";
  if (container == Container::kMatroska)
    return is_in(kPictures) || is_in(kMatroskaTexts) ? "copy" : "srt";
  if (is_in(kPictures) || codec == "hdmv_text_subtitle") return "";
  return codec == "mov_text" ? "copy" : "mov_text";
}

bool GoesAlong(const FilmStream& stream, Container container) {
  if (stream.type == "audio") return true;
  if (stream.type == "attachment") return container == Container::kMatroska;
  return stream.type == "subtitle" && !SubtitleCodecFor(stream.codec, container).empty();
}

// From half a frame before the first one: ffmpeg leaves out earlier frames.
FfmpegCommand DecodePart(const server::FilmPart& part) {
  FfmpegCommand command = QuietFfmpeg();
  if (part.number > 0) {
    const double first = static_cast<double>(part.first_frame()) - 0.5;
    Append(command, {"-ss", absl::StrFormat("%.6f", part.start_s + part.seconds(first))});
  }
  AppendSource(command);
  Append(command, {"-map", "0:V:0", "-frames:v", absl::StrCat(part.count(part.number)), "-fps_mode",
                   "passthrough", "-strict", "-1", "-f", "yuv4mpegpipe", "pipe:1"});
  return command;
}

FfmpegCommand EncodePart(const server::FilmPart& part, const VideoCodec& codec,
                         const std::string& to) {
  FfmpegCommand command = QuietFfmpeg();
  Append(command, {"-f", "yuv4mpegpipe", "-i", "pipe:0"});
  AppendCodec(command, part, codec);
  Append(command, {"-f", "nut", "-y", "file:" + to});
  return command;
}

FfmpegCommand JoinParts(const server::FilmPart& part, const std::string& list,
                        const std::vector<FilmStream>& source, Container container,
                        const std::string& to) {
  FfmpegCommand command = QuietFfmpeg();
  Append(command, {"-xerror"});  // otherwise ffmpeg leaves out a part that it cannot read
  Append(command, {"-itsoffset", absl::StrFormat("%.6f", part.start_s)});
  Append(command, {"-protocol_whitelist", "file", "-f", "concat", "-i", "file:" + list});
  AppendSource(command);
  Append(command, {"-map", "0:v:0"});
  AppendCopy(command);
  int subtitles = 0;
  for (const FilmStream& stream : source) {
    if (!GoesAlong(stream, container)) continue;
    AppendStream(command, 1, stream, subtitles, container);
    subtitles += stream.type == "subtitle" ? 1 : 0;
  }
  AppendColours(command, part);
  Append(command, {"-map_metadata", "1", "-map_chapters", "1", "-f", FormatOf(container), "-y",
                   "file:" + to});
  return command;
}

FfmpegCommand TryStream(const FilmStream& stream, Container container, const std::string& to) {
  FfmpegCommand command = QuietFfmpeg();
  Append(command, {"-t", "1"});
  AppendSource(command);
  AppendCopy(command);
  AppendStream(command, 0, stream, 0, container);
  Append(command, {"-f", FormatOf(container), "-y", "file:" + to});
  return command;
}

FfmpegCommand TryCodec(const server::FilmPart& part, const VideoCodec& codec,
                       const std::string& pixel_format, Container container,
                       const std::string& to) {
  FfmpegCommand command = QuietFfmpeg();
  Append(command, {"-f", "lavfi", "-i",
                   absl::StrCat("color=size=64x64:rate=", part.rate, "/", part.rate_by,
                                ",format=", pixel_format),
                   "-frames:v", "1"});
  AppendCodec(command, part, codec);
  Append(command, {"-f", FormatOf(container), "-y", "file:" + to});
  return command;
}

}  // namespace upscaled::client
