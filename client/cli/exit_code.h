// The meanings of the command's exit status.
#pragma once

namespace upscaled::client {

enum ExitCode : int {
  kExitOk = 0,
  kExitBadArguments = 1,
  kExitCannotConnect = 2,
  kExitRpcFailed = 3,
  kExitSomeFailed = 4,  // `image`: some files of a folder failed; `jobs follow`: not all are done.
  kExitNotServing = 4,  // `health`: as grpc_health_probe has it.
  kExitLocalError = 5,
  kExitInterrupted = 130,
};

}  // namespace upscaled::client
