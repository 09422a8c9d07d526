// A range of a film's frames: the work of one job, of several for a film.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"

namespace upscaled::server {

struct FilmPart {
  std::string id;                 // of the film, as a job's
  int64_t number = 0;             // of the part, from 0
  int64_t frames = 0;             // of the film
  int64_t part_frames = 0;        // of each part; the last one may have fewer
  int64_t rate = 0, rate_by = 1;  // frames in this many seconds
  double start_s = 0;             // of the film's first frame, after the beginning of its file
  std::string matrix;             // "601", "709" or "2020"; "": by the height
  // The result's and the film's, by ffmpeg's names, such as "bt2020", "smpte2084" and "tv"; "": the
  // film does not say it.
  std::string primaries, transfer, range;
  std::string codec;  // of the result: a name in kVideoCodecs

  bool operator==(const FilmPart&) const = default;

  int64_t parts() const { return (frames + part_frames - 1) / part_frames; }
  int64_t first_frame() const { return number * part_frames; }
  // Frames of part `of`.
  int64_t count(int64_t of) const { return std::min(part_frames, frames - of * part_frames); }
  double seconds(double of_frames) const {
    return of_frames * static_cast<double>(rate_by) / static_cast<double>(rate);
  }
};

// The folder of a film's parts until they are joined to `output`. It is gone then.
inline std::string FilmFolder(const std::string& output, const FilmPart& film) {
  return absl::StrCat(output, ".", film.id, ".parts");
}

}  // namespace upscaled::server
