// A request's progress as server-sent events (the HTML standard, "Server-sent events").
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "absl/time/time.h"
#include "server/rest/progress_board.h"

namespace upscaled::server {

// The event stream of one listener: "queued", "upload" and "tiles" at each per cent, "started",
// "done" or "failed"; a comment when nothing else was sent for 10 s. Not thread safe.
class ProgressEvents {
 public:
  ProgressEvents(std::string request_id, absl::Time now)
      : request_id_(std::move(request_id)), begin_(now), last_sent_(now) {}

  // The text to be sent now; "" without news. `progress` is null until there is such a request. It
  // waits 30 s for one.
  std::string Next(const RequestProgress* progress, absl::Time now);
  // Whether the stream is over.
  bool ended() const { return ended_; }

 private:
  std::string News(const RequestProgress::State& state);

  const std::string request_id_;
  const absl::Time begin_;
  absl::Time last_sent_;
  bool queued_ = false, started_ = false, ended_ = false;
  int64_t upload_step_ = 0, tiles_step_ = 0;
};

// One event. `data` has no line ends.
std::string FormatEvent(std::string_view name, std::string_view data);

}  // namespace upscaled::server
