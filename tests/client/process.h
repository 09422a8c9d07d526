// Running the real command.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "tests/client/temp_folder.h"

namespace upscaled::client {

struct ProcessResult {
  // Exit code, or 128 and the number of its last signal.
  int exit_code = 0;
  std::string out;
  std::string err;
};

// A child process with its streams in files. Killed with the object when still running.
class Process {
 public:
  // Standard input is `input`; the environment is ours, and UPSCALE_SERVER `server` unless empty.
  Process(const std::vector<std::string>& command, const std::string& input = "",
          const std::string& server = "");
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  void Signal(int signal);
  ProcessResult Wait();

 private:
  TempFolder folder_;
  pid_t pid_ = -1;  // -1 when it has ended.
};

}  // namespace upscaled::client
