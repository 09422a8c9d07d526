// Whether a film can become its result, before any frame of it is computed.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/video/film_facts.h"
#include "client/worker/film_commands.h"
#include "server/jobs/film_part.h"

namespace upscaled::client {

// Encodes a frame of the film's pixels, and has the result's container take each of its streams
// that goes along, in a folder of its own. Returns warnings: streams that stay behind or become
// others, samples of fewer bits. INVALID_ARGUMENT if the container does not take the codec or a
// stream, named by the error; FAILED_PRECONDITION if ffmpeg is not installed.
absl::StatusOr<std::vector<std::string>> CheckFilm(const std::string& source,
                                                   const FilmFacts& facts,
                                                   const server::FilmPart& part,
                                                   Container container);

}  // namespace upscaled::client
