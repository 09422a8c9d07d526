// Facts about a film in a file, before any frame of it is decoded.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace upscaled::client {

struct FilmFacts {
  int64_t frames = 0;
  int64_t rate = 0, rate_by = 1;  // frames in this many seconds
  double start_s = 0;             // of the first frame, after the beginning of the file
  std::string matrix;             // "601", "709" or "2020"; "": the file does not say it
};

// Asks ffprobe. FAILED_PRECONDITION if it is not installed; INVALID_ARGUMENT for another file than
// a film, and for frames that do not come at an even rate, of which parts could not be put together
// again.
absl::StatusOr<FilmFacts> ReadFilmFacts(const std::string& path);

// From ffprobe's words: lines NAME=VALUE about the file, and the times of its frames, in seconds,
// one a line and in any order.
absl::StatusOr<FilmFacts> ParseFilmFacts(const std::string& facts, const std::string& times);

}  // namespace upscaled::client
