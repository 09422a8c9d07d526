// Calls with an image in a file as their answer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "server/rest/answer_sink.h"
#include "server/rest/rest_call.h"
#include "server/results/result_file.h"

namespace upscaled::server {

// An image without changes under its name.
struct FileAnswer {
  std::string name;  // of the entity tag
  std::string media_type;
  std::string cache_control;
  std::vector<std::string> warnings;  // about all that the image has dropped or changed
};

// Heeds If-Match, If-None-Match, Range and If-Range.
class FileCall : public RestCall {
 protected:
  static constexpr size_t kPieceBytes = size_t{64} << 10;
  // For Start: its contents.
  static constexpr int64_t kMemoryBytes = AnswerSink::kPieceBytes + kPieceBytes;

  using RestCall::RestCall;

  // As Send, or the error.
  virtual absl::Status Answer() = 0;
  // Leaves the answer's end to be sent. DATA_LOSS for a file that is cut short meanwhile;
  // FAILED_PRECONDITION (412) and OUT_OF_RANGE (416) if the request's conditions and the file do
  // not go together.
  absl::Status Send(const FileAnswer& answer, const ResultFile& file);

 private:
  void Run() override;
};

}  // namespace upscaled::server
