// Facts about a film in a file, before any frame of it is decoded.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace upscaled::client {

struct FilmFacts {
  int64_t frames = 0;
  int64_t rate = 0, rate_by = 1;  // frames in this many seconds
  double start_s = 0;             // of the first frame, after the beginning of the file
  int width_px = 0, height_px = 0;
  std::string pixel_format;  // ffmpeg's name
  std::string matrix;        // "601", "709" or "2020": as the file says, or by the height
  // As ffmpeg names them, such as "bt2020", "smpte2084" and "tv"; "": the file does not say it.
  std::string primaries, transfer, range;
};

// Asks ffprobe. FAILED_PRECONDITION if it is not installed; INVALID_ARGUMENT for another file than
// a film, for frames at an uneven rate (their parts could not be put together again), for
// interlaced films, and for samples and colours that are not read.
absl::StatusOr<FilmFacts> ReadFilmFacts(const std::string& path);

// From ffprobe's words: lines NAME=VALUE about the file, and the times of its frames, in seconds,
// one a line and in any order.
absl::StatusOr<FilmFacts> ParseFilmFacts(const std::string& facts, const std::string& times);

// A stream of a film's file.
struct FilmStream {
  int number = 0;           // in the file
  std::string codec;        // ffmpeg's name
  std::string type;         // "video", "audio", "subtitle", "attachment" or "data"
  bool is_picture = false;  // a cover, and no film
};

// `source`: a descriptor of the film's file.
absl::StatusOr<std::vector<FilmStream>> ReadFilmStreams(int source);

}  // namespace upscaled::client
