// Jobs of films: ffmpeg decodes and encodes, the service upscales.
#pragma once

#include <cstdint>
#include <functional>
#include <stop_token>
#include <string>

#include "absl/status/status.h"
#include "client/service.h"
#include "server/jobs/film_part.h"

namespace upscaled::client {

// Upscales a part's frames into a file in the film's folder, unless it is there. If this was the
// last one, joins all parts, with the sound and the other streams of the source, to `output`, and
// removes the folder. Does nothing if the result is there and the folder is gone. Safe to repeat
// and to run at the same time elsewhere: files appear whole, and each encoder gives the same bytes.
//
// `source` is a descriptor of the film. `on_frame` is called with the number of finished frames.
// FAILED_PRECONDITION if ffmpeg is not installed; NOT_FOUND if neither result nor folder is there;
// INVALID_ARGUMENT, with ffmpeg's words, for a film it cannot read; CANCELLED after `stop`; errors
// of the service.
absl::Status RunFilmPart(Service& service, const v1::UpscaleOptions& options,
                         const server::FilmPart& part, int source, const std::string& output,
                         const std::function<void(int64_t)>& on_frame, std::stop_token stop);

}  // namespace upscaled::client
