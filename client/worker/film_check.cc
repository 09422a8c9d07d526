#include "client/worker/film_check.h"

#include <fcntl.h>

#include <cerrno>
#include <cmath>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "client/temporary_folder.h"
#include "client/video/ffmpeg.h"
#include "client/worker/film_commands.h"
#include "engine/base/status_macros.h"
#include "engine/base/unique_fd.h"

namespace upscaled::client {
namespace {

namespace v1 = ::upscale::v1;

constexpr char kLosslessCodec[] = "ffv1";

class FilmTrial {
 public:
  FilmTrial(const server::FilmPart& part, Container container, int source, std::string to)
      : part_(part), container_(container), source_(source), to_(std::move(to)) {}

  // The codec's pixel format for the film's.
  absl::StatusOr<std::string> Encode(const std::string& pixel_format) const {
    const VideoCodec& codec = *FindVideoCodec(part_.codec);
    RETURN_IF_ERROR(Refuse(RunFfmpeg(TryCodec(part_, codec, pixel_format, container_, to_), {}, {}),
                           absl::StrCat("the codec ", part_.codec)));
    ASSIGN_OR_RETURN(const std::string told,
                     ReadFfmpeg({"ffprobe", "-v", "error", "-show_entries", "stream=pix_fmt", "-of",
                                 "csv=p=0", "-i", "file:" + to_}));
    return std::string(absl::StripSuffix(told, "\n"));
  }

  // The change of a stream of the film in the result; "": none.
  absl::StatusOr<std::string> Take(const FilmStream& stream) const {
    const std::string name =
        absl::StrCat("stream ", stream.number, " (", stream.type, ", ", stream.codec, ")");
    if (!GoesAlong(stream, container_)) return absl::StrCat(name, " is left out");
    if (stream.type == "attachment") return "";  // all of them fit, none can be tried by itself
    RETURN_IF_ERROR(
        Refuse(RunFfmpeg(TryStream(stream, container_, to_), {.source = source_}, {}), name));
    const bool is_text = stream.type == "subtitle";
    const std::string codec = is_text ? SubtitleCodecFor(stream.codec, container_) : "copy";
    return codec == "copy" ? "" : absl::StrCat(name, " becomes ", codec);
  }

 private:
  absl::Status Refuse(const absl::Status& tried, const std::string& name) const {
    if (!absl::IsInvalidArgument(tried)) return tried;
    return absl::InvalidArgumentError(absl::StrCat(
        name, " does not fit into ", EndingOf(container_),
        container_ == Container::kMatroska ? "" : "; .mkv takes most", " (", tried.message(), ")"));
  }

  const server::FilmPart& part_;
  const Container container_;
  const int source_;
  const std::string to_;
};

// ffmpeg's old names of full range.
std::string WithoutRange(absl::string_view pixel_format) {
  return absl::ConsumePrefix(&pixel_format, "yuvj") ? absl::StrCat("yuv", pixel_format)
                                                    : std::string(pixel_format);
}

}  // namespace

HalvedSides HalvedSidesOf(const std::string& pixel_format) {
  if (absl::StrContains(pixel_format, "420p")) return HalvedSides::kBoth;
  return absl::StrContains(pixel_format, "422p") ? HalvedSides::kWidth : HalvedSides::kNone;
}

bool MayHaveOddSide(const v1::UpscaleOptions& options, const FilmFacts& facts, HalvedSides sides) {
  if (sides == HalvedSides::kNone) return false;
  const auto is_odd = [sides](double width_px, double height_px) {
    const auto is_odd_side = [](double px) { return std::fmod(std::floor(px + 0.5), 2) != 0; };
    return is_odd_side(width_px) || (sides == HalvedSides::kBoth && is_odd_side(height_px));
  };
  const v1::TargetSize& size = options.size();
  const bool has_both = size.width_px() > 0 && size.height_px() > 0;
  const bool is_filled = size.fit() == v1::FIT_COVER || size.fit() == v1::FIT_STRETCH;
  if (options.max_pixels() > 0 || options.no_enlarge()) return true;
  if (options.has_size())
    return !has_both || !is_filled || is_odd(size.width_px(), size.height_px());
  const double scale = options.has_scale() ? options.scale() : 1;  // a model's is a whole number
  return is_odd(facts.width_px * scale, facts.height_px * scale);
}

absl::StatusOr<std::vector<std::string>> CheckFilm(const std::string& source,
                                                   const FilmFacts& facts,
                                                   const v1::UpscaleOptions& options,
                                                   const server::FilmPart& part,
                                                   Container container) {
  const UniqueFd file(open(source.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.valid()) return absl::ErrnoToStatus(errno, absl::StrCat("cannot open ", source));
  ASSIGN_OR_RETURN(const TemporaryFolder folder, TemporaryFolder::Make("upscale-film-"));
  const FilmTrial trial(part, container, file.get(), folder.path() / "trial");
  std::vector<std::string> warnings;
  ASSIGN_OR_RETURN(const std::string pixels, trial.Encode(facts.pixel_format));
  if (WithoutRange(pixels) != WithoutRange(facts.pixel_format)) {
    warnings.push_back(absl::StrCat("the result has pixels of ", pixels, ", the film of ",
                                    facts.pixel_format, "; --codec ffv1 keeps them"));
  }
  const HalvedSides halved = HalvedSidesOf(pixels);
  if (part.codec != kLosslessCodec && MayHaveOddSide(options, facts, halved)) {
    warnings.push_back(absl::StrCat(
        halved == HalvedSides::kBoth ? "a side of the result that is odd loses its last row or "
                                       "column: "
                                     : "a width of the result that is odd loses its last "
                                       "column: ",
        part.codec, " of ", pixels, " has even ones; --codec ", kLosslessCodec, " keeps them"));
  }
  ASSIGN_OR_RETURN(const std::vector<FilmStream> streams, ReadFilmStreams(file.get()));
  bool has_film = false;
  for (const FilmStream& stream : streams) {
    const bool is_film = !has_film && stream.type == "video" && !stream.is_picture;
    has_film |= is_film;
    if (is_film) continue;
    ASSIGN_OR_RETURN(std::string change, trial.Take(stream));
    if (!change.empty()) warnings.push_back(std::move(change));
  }
  if (facts.transfer == "smpte2084") {
    warnings.push_back(
        "the result has the film's transfer and primaries, and no mastering display or light "
        "level");
  }
  return warnings;
}

}  // namespace upscaled::client
