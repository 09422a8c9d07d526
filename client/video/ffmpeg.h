// Processes of ffmpeg and ffprobe.
#pragma once

#include <sys/types.h>

#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/base/unique_fd.h"

namespace upscaled::client {

// The formats of films, as ffmpeg names them. Files with names of other files, such as playlists,
// are no films here: a source names one file. MPEG streams have no index: a place in the middle is
// not found to the frame.
inline constexpr char kFilmFormats[] = "matroska,mov,avi,nut,ogg,flv,asf,yuv4mpegpipe,ivf,gif";

// A process, running until it ends or is killed.
class Ffmpeg {
 public:
  // Files open in the process; borrowed. -1: none.
  struct Files {
    int input = -1, output = -1;
    int source = -1;  // becomes kSource
  };
  static constexpr char kSource[] = "file:/dev/fd/3";

  // `command` begins with the program's name, to be found in PATH. FAILED_PRECONDITION if it is not
  // installed.
  static absl::StatusOr<Ffmpeg> Start(std::vector<std::string> command, const Files& files);
  Ffmpeg(Ffmpeg&& other) noexcept;
  Ffmpeg& operator=(Ffmpeg&&) = delete;
  ~Ffmpeg();

  // Returns after the end. The process may be killed until Wait is called.
  void AwaitEnd() const;
  // As AwaitEnd. INVALID_ARGUMENT, with the process's last words, if it failed; UNAVAILABLE if it
  // was killed. Call once, last.
  absl::Status Wait();
  void Kill() const;
  // The last line on its standard error.
  std::string LastWords() const;

 private:
  Ffmpeg(std::string program, pid_t pid, UniqueFd errors)
      : program_(std::move(program)), pid_(pid), errors_(std::move(errors)) {}

  std::string program_;
  pid_t pid_;  // -1: it has ended
  UniqueFd errors_;
};

// Runs a process to its end, or until `stop`. CANCELLED after `stop`.
absl::Status RunFfmpeg(std::vector<std::string> command, const Ffmpeg::Files& files,
                       std::stop_token stop);
// The same, and returns its standard output. `source` becomes kSource; -1: none.
absl::StatusOr<std::string> ReadFfmpeg(std::vector<std::string> command, int source = -1);

}  // namespace upscaled::client
