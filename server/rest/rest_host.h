// The environment of all HTTP calls.
#pragma once

#include <cstddef>

#include "server/calls/call_environment.h"
#include "server/fetch/fetcher.h"
#include "server/handlers/handler_environment.h"
#include "server/rest/cors.h"
#include "server/rest/progress_board.h"
#include "server/rest/question_pool.h"

namespace upscaled::server {

class AsyncJobs;

// Everything outlives the calls.
struct RestHost {
  const HandlerEnvironment& handlers;
  CallEnvironment& calls;
  const Cors& cors;
  const Fetcher& fetcher;
  ProgressBoard& board;
  QuestionPool& questions;
  AsyncJobs* jobs = nullptr;  // null: images are upscaled while their callers wait
  absl::Duration signed_max_age = absl::ZeroDuration();  // as RestOptions has it
};

inline constexpr char kHttpTransport[] = "http";  // of a RequestRecord
inline constexpr char kTraceparent[] = "traceparent";

}  // namespace upscaled::server
