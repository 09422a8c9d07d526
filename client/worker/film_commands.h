// The commands of ffmpeg for the parts of a film.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/video/film_facts.h"
#include "server/jobs/film_part.h"

namespace upscaled::client {

// An encoder's name for users, and ffmpeg's arguments for it.
struct VideoCodec {
  const char* name;
  std::span<const char* const> arguments;
};
std::span<const VideoCodec> VideoCodecs();
// Null for a name outside of the list.
const VideoCodec* FindVideoCodec(const std::string& name);

// The kinds of files for a film's result, by the ending of their names in any case.
enum class Container : uint8_t { kMatroska, kMp4, kMov };
// INVALID_ARGUMENT for a folder and for another ending.
absl::StatusOr<Container> ContainerOf(const std::string& path);
// ".mkv", ...
const char* EndingOf(Container container);

// How the result takes a subtitle stream: an encoder of ffmpeg, "copy", or "" if it cannot.
std::string SubtitleCodecFor(const std::string& codec, Container container);
// Whether the result has this stream of the source.
bool GoesAlong(const FilmStream& stream, Container container);

using FfmpegCommand = std::vector<std::string>;

// kSource's frames of the part, as YUV4MPEG2 on standard output.
FfmpegCommand DecodePart(const server::FilmPart& part);
// YUV4MPEG2 on standard input to the file `to`, in NUT.
FfmpegCommand EncodePart(const server::FilmPart& part, const VideoCodec& codec,
                         const std::string& to);
// The parts of the file `list` to the file `to`, with the kept streams of kSource.
FfmpegCommand JoinParts(const server::FilmPart& part, const std::string& list,
                        const std::vector<FilmStream>& source, Container container,
                        const std::string& to);
// One stream of kSource's first second to the file `to`, as JoinParts has it.
FfmpegCommand TryStream(const FilmStream& stream, Container container, const std::string& to);
// A frame of the part's pixels and colours to the file `to`, in the container.
FfmpegCommand TryCodec(const server::FilmPart& part, const VideoCodec& codec,
                       const std::string& pixel_format, Container container, const std::string& to);

}  // namespace upscaled::client
