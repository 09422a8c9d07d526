// Whether a film can become its result, before any frame of it is computed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/video/film_facts.h"
#include "client/worker/film_commands.h"
#include "server/jobs/film_part.h"
#include "upscale/v1/upscale.pb.h"

namespace upscaled::client {

// Encodes a frame of the film's pixels, and tries each kept stream in the result's container, in a
// folder of its own. Returns warnings: streams left behind or changed, samples of fewer bits, odd
// sides that the codec cannot have.
// INVALID_ARGUMENT if the container does not take the codec or a stream, named by the error;
// FAILED_PRECONDITION if ffmpeg is not installed.
absl::StatusOr<std::vector<std::string>> CheckFilm(const std::string& source,
                                                   const FilmFacts& facts,
                                                   const ::upscale::v1::UpscaleOptions& options,
                                                   const server::FilmPart& part,
                                                   Container container);

// Sides that the chroma of a film has half of: 4:2:2 has all of its rows.
enum class HalvedSides : uint8_t { kNone, kWidth, kBoth };
HalvedSides HalvedSidesOf(const std::string& pixel_format);

// Whether one of `sides` of the result may be odd: no server has chosen the model yet.
bool MayHaveOddSide(const ::upscale::v1::UpscaleOptions& options, const FilmFacts& facts,
                    HalvedSides sides);

}  // namespace upscaled::client
